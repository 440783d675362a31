"""Cost: how much slower a planned step is for how much less memory, and never more than one extra forward pass."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.report import Bar, Section, number, percent
from benchmarks.fit.runs import Measured, Runs, budget_for, start
from benchmarks.fit.suite import BLOCKS, COST_SHARES, ORDERED, PLAIN, PLANNED, ROOT, TITLES, Case

ROUNDS = 9
FORWARD = "forward"
# The slowdown that is allowed for each share of the activations that stays.
MOST_SLOWDOWN = {0.5: 0.10, 0.3: 0.15}
PEERS = (BLOCKS, ROOT)


@dataclass(frozen=True)
class Race:
    """Several ways to run one program, taken in turn in one process, the plain one among them."""

    seen: Measured

    def lane(self, name: str) -> Measured | None:
        found: Measured | None = self.seen.get("lanes", {}).get(name)
        return found

    def slowdown(self, lane: Measured | None) -> float | None:
        """Measured time on top of the plain step's, as a share of it."""
        plain = self.lane(PLAIN)
        if lane is None or plain is None:
            return None
        # Round by round, so that what slows the whole machine down for a while falls on both.
        return statistics.median(one / other for one, other in zip(lane["seconds"], plain["seconds"], strict=True)) - 1

    def reduction(self, lane: Measured | None) -> float | None:
        """By how much less than the plain step's the activation memory is."""
        plain = self.lane(PLAIN)
        return None if lane is None or plain is None else 1 - extra(lane) / extra(plain)

    def passes(self, lane: Measured | None) -> float | None:
        """The time on top, in forward passes."""
        plain, forward, slower = self.lane(PLAIN), self.lane(FORWARD), self.slowdown(lane)
        if plain is None or forward is None or slower is None:
            return None
        return slower * seconds(plain) / seconds(forward)

    def without(self) -> dict[str, str]:
        """Lanes that could not be run, and why."""
        lanes: dict[str, str] = self.seen.get("without", {})
        return lanes | {"race": self.seen["failed"]} if "failed" in self.seen else lanes


@dataclass(frozen=True)
class CostRow:
    """One case: planned steps beside the plain one, and what TensorFlow offers beside a plain one of its own."""

    case: Case
    budgets: Mapping[float, int]
    race: Race
    peers: Race = Race({})

    def planned(self, share: float) -> Measured | None:
        return self.race.lane(f"{PLANNED}={self.budgets.get(share)}")


def seconds(lane: Measured) -> float:
    return statistics.median(lane["seconds"])


def extra(lane: Measured) -> float:
    """What a step takes on top of what is there before it."""
    return statistics.median(peak - before for peak, before in zip(lane["peaks"], lane["before"], strict=True))


def measure(case: Case, runs: Runs, shares: Sequence[float] = COST_SHARES, with_peers: bool = True) -> CostRow:
    reference = runs.reference(case)
    budgets = {share: budget for share in shares if (budget := budget_for(reference, share)) is not None}
    race = _run(case, runs, "cost", [ORDERED, *(f"{PLANNED}={budget}" for budget in budgets.values())], True)
    # What others take does not change with lowtide: they race once.
    return CostRow(case, budgets, race, _run(case, runs, "cost of peers", PEERS, False) if with_peers else Race({}))


def _run(case: Case, runs: Runs, label: str, lanes: Sequence[str], by_lowtide: bool) -> Race:
    arguments = [case.name, "--rounds", str(ROUNDS), "--lanes", PLAIN, *lanes]
    name = f"{case.name} {label}"
    return Race(runs.once(name, lambda: start("race", arguments), repr(case), *arguments, by_lowtide=by_lowtide))


COLUMNS = (
    "program", "plain seconds",
    *(f"planned for {1 - share:.0%} less: {what}"
      for share in COST_SHARES for what in ("less", "slower", "as planned", "forward passes")),
    *(f"{TITLES[peer]}: {what}" for peer in PEERS for what in ("less", "slower")),
)  # fmt: skip


def report(rows: Sequence[CostRow]) -> Section:
    without = [
        (row, lane, why) for row in rows for race in (row.race, row.peers) for lane, why in race.without().items()
    ]
    notes = [f"{row.case.name}, {lane}: {why}" for row, lane, why in without]
    return Section("Cost", COLUMNS, [_cells(row) for row in rows], _bars(rows), notes)


def _cells(row: CostRow) -> list[str]:
    plain = row.race.lane(PLAIN)
    cells = [row.case.name, "n/a" if plain is None else number(seconds(plain))]
    for share in COST_SHARES:
        lane = row.planned(share)
        cells += [
            percent(row.race.reduction(lane)),
            percent(row.race.slowdown(lane), signed=True, digits=1),
            percent(None if lane is None else lane["slowdown"], signed=True, digits=1),
            number(row.race.passes(lane)),
        ]
    for peer in PEERS:
        lane = row.peers.lane(peer)
        cells += [percent(row.peers.reduction(lane)), percent(row.peers.slowdown(lane), signed=True, digits=1)]
    return cells


def _bars(rows: Sequence[CostRow]) -> list[Bar]:
    bars = []
    for share in COST_SHARES:
        lanes = [(row, row.planned(share)) for row in rows]
        reached = sum(lane is not None and (row.race.reduction(lane) or 0) >= 1 - share for row, lane in lanes)
        # A program without a plan counts as infinitely slow.
        slower = [_known(row.race.slowdown(lane)) for row, lane in lanes]
        middle = statistics.median(slower) if slower else float("inf")
        words = f"activation memory down by {1 - share:.0%} costs at most {MOST_SLOWDOWN[share]:.0%} in the median"
        seen = f"{middle:+.1%}; {reached} of {len(rows)} programs are down by as much"
        bars.append(Bar(words, seen, middle <= MOST_SLOWDOWN[share] and 2 * reached > len(rows)))
    known = [(row, lane) for row in rows for share in COST_SHARES if (lane := row.planned(share)) is not None]
    most = max((_known(row.race.passes(lane)) for row, lane in known), default=float("inf"))
    twice = sum(lane["recomputed_twice"] for _, lane in known)
    seen = f"at most {most:.2f} in time, {twice} nodes a third time"
    bars.append(Bar("never more than one extra forward pass", seen, most <= 1 and twice == 0))
    return bars


def _known(value: float | None) -> float:
    return float("inf") if value is None else value
