"""Cost: how much slower a planned step is for how much less memory, and never more than one extra forward pass."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.fit.report import Bar, Section, number, percent
from benchmarks.fit.runs import Measured, Runs, budget_for, start
from benchmarks.fit.suite import BLOCKS, COST_SHARES, ORDERED, PLAIN, PLANNED, ROOT, TITLES, Case

ROUNDS = 11
FORWARD = "forward"
# The slowdown that is allowed for each share of the activations that stays.
MOST_SLOWDOWN = {0.5: 0.10, 0.3: 0.15}
PEERS = (BLOCKS, ROOT)


@dataclass(frozen=True)
class CostRow:
    """One case: each way's step beside the plain one, taken in turn."""

    case: Case
    budgets: Mapping[float, int]
    race: Measured

    def lane(self, name: str) -> Measured | None:
        found: Measured | None = self.race.get("lanes", {}).get(name)
        return found

    def planned(self, share: float) -> Measured | None:
        return self.lane(f"{PLANNED}={self.budgets.get(share)}")

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


def seconds(lane: Measured) -> float:
    return statistics.median(lane["seconds"])


def extra(lane: Measured) -> float:
    """What a step takes on top of what is there before it."""
    return statistics.median(peak - before for peak, before in zip(lane["peaks"], lane["before"], strict=True))


def measure(case: Case, runs: Runs, shares: Sequence[float] = COST_SHARES) -> CostRow:
    reference = runs.reference(case)
    budgets = {share: budget for share in shares if (budget := budget_for(reference, share)) is not None}
    lanes = [PLAIN, ORDERED, *(f"{PLANNED}={budget}" for budget in budgets.values()), *PEERS]
    arguments = [case.name, "--rounds", str(ROUNDS), "--lanes", *lanes]
    race = runs.once(f"{case.name} cost", lambda: start("race", arguments), repr(case), *arguments, by_lowtide=True)
    return CostRow(case, budgets, race)


COLUMNS = (
    "program", "plain seconds",
    *(f"planned for {1 - share:.0%} less: {what}"
      for share in COST_SHARES for what in ("less", "slower", "as planned", "forward passes")),
    *(f"{TITLES[peer]}: {what}" for peer in PEERS for what in ("less", "slower")),
)  # fmt: skip


def report(rows: Sequence[CostRow]) -> Section:
    notes = [f"{row.case.name}, {lane}: {why}" for row in rows for lane, why in row.race.get("without", {}).items()]
    notes += [f"{row.case.name}: {row.race['failed']}" for row in rows if "failed" in row.race]
    return Section("Cost", COLUMNS, [_cells(row) for row in rows], _bars(rows), notes)


def _cells(row: CostRow) -> list[str]:
    plain = row.lane(PLAIN)
    cells = [row.case.name, "n/a" if plain is None else number(seconds(plain))]
    for share in COST_SHARES:
        lane = row.planned(share)
        cells += [
            percent(row.reduction(lane)),
            percent(row.slowdown(lane), signed=True, digits=1),
            percent(None if lane is None else lane["slowdown"], signed=True, digits=1),
            number(row.passes(lane)),
        ]
    for peer in PEERS:
        lane = row.lane(peer)
        cells += [percent(row.reduction(lane)), percent(row.slowdown(lane), signed=True, digits=1)]
    return cells


def _bars(rows: Sequence[CostRow]) -> list[Bar]:
    bars = []
    for share in COST_SHARES:
        lanes = [(row, row.planned(share)) for row in rows]
        reached = sum(lane is not None and (row.reduction(lane) or 0) >= 1 - share for row, lane in lanes)
        # A program without a plan counts as endlessly slow.
        slower = [_known(row.slowdown(lane)) for row, lane in lanes]
        middle = statistics.median(slower) if slower else float("inf")
        words = f"activation memory down by {1 - share:.0%} costs at most {MOST_SLOWDOWN[share]:.0%} in the median"
        seen = f"{middle:+.1%}; {reached} of {len(rows)} programs are down by as much"
        bars.append(Bar(words, seen, middle <= MOST_SLOWDOWN[share] and 2 * reached > len(rows)))
    known = [(row, lane) for row in rows for share in COST_SHARES if (lane := row.planned(share)) is not None]
    most = max((_known(row.passes(lane)) for row, lane in known), default=float("inf"))
    twice = sum(lane["recomputed_twice"] for _, lane in known)
    seen = f"at most {most:.2f} in time, {twice} nodes a third time"
    bars.append(Bar("never more than one extra forward pass", seen, most <= 1 and twice == 0))
    return bars


def _known(value: float | None) -> float:
    return float("inf") if value is None else value
