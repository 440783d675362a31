"""The promise: under a hard limit of exactly the budget the planned step trains, and the plain one does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.common.report import Bar, Section, mebibytes, percent
from benchmarks.fit.runs import Measured, Runs, budget_for, ran_out
from benchmarks.fit.suite import BLOCKS, PLAIN, PLANNED, PROMISED_SHARES, ROOT, STEPS, TITLES, Case

PEERS = (PLAIN, BLOCKS, ROOT)
# A peer that is going to run out does so soon, and its peak does not depend on a plan.
PEER_STEPS = 6
KEPT_SHARE = 0.99


@dataclass(frozen=True)
class PromiseRow:
    """One case under one budget: the planned run and the peers' under the same limit."""

    case: Case
    share: float
    budget_bytes: int
    plain_bytes: int
    """The median of plain steps."""
    planned: Measured
    peers: dict[str, Measured] = field(default_factory=dict)

    @property
    def trained(self) -> bool:
        return ran_out(self.planned) is False and len(self.planned["peaks"]) == STEPS

    @property
    def kept(self) -> tuple[int, int]:
        """In how many of the steps the recorded peak is at most the promised one."""
        peaks = self.planned.get("peaks", ())
        return sum(peak <= self.planned["promised_bytes"] for peak in peaks), len(peaks)


def measure(
    case: Case, runs: Runs, shares: Sequence[float] = PROMISED_SHARES, peers: Sequence[str] = PEERS
) -> list[PromiseRow]:
    reference = runs.reference(case)
    rows: list[PromiseRow] = []
    last: dict[str, Measured] = {}
    for share in sorted(shares, reverse=True):
        budget = budget_for(reference, share)
        if budget is None:
            return [PromiseRow(case, share, 0, 0, reference)]
        label = f"within {share:.0%}"
        planned = runs.train(case, PLANNED, label, limit_bytes=budget, budget_bytes=budget, by_lowtide=True)
        for peer in peers:
            # A way that runs out of memory under a larger budget also does under a smaller one.
            if not ran_out(last.get(peer, {})):
                last[peer] = runs.train(case, peer, label, limit_bytes=budget, steps=PEER_STEPS)
        plain = sorted(reference["peaks"])[len(reference["peaks"]) // 2]
        rows.append(PromiseRow(case, share, budget, plain, planned, dict(last)))
    return rows


def outcome(result: Measured) -> str:
    """How a run under a limit ended, in a word or two."""
    if "refused" in result:
        return "no plan"
    if "failed" in result:
        return "fails"
    ended = ran_out(result)
    return "not run" if ended is None else "runs out" if ended else f"trains ({mebibytes(max(result['peaks']))})"


COLUMNS = (
    "program", "plain takes", "budget", "of its activations", "promised", "recorded, highest", "planned", "steps kept",
    *(TITLES[peer] for peer in PEERS),
)  # fmt: skip


def report(rows: Sequence[PromiseRow]) -> Section:
    return Section("The promise", COLUMNS, [_cells(row) for row in rows], _bars(rows), _notes(rows))


def _cells(row: PromiseRow) -> list[str]:
    peaks = row.planned.get("peaks")
    return [
        f"{row.case.name}, batch {row.case.batch_size}",
        mebibytes(row.plain_bytes),
        mebibytes(row.budget_bytes),
        percent(row.share),
        mebibytes(row.planned.get("promised_bytes")),
        mebibytes(max(peaks)) if peaks else "n/a",
        outcome(row.planned) + (f", {pieces} micro-batches" if (pieces := row.planned.get("pieces", 1)) > 1 else ""),
        "{} of {}".format(*row.kept),
        *(outcome(row.peers.get(peer, {})) for peer in PEERS),
    ]


def _bars(rows: Sequence[PromiseRow]) -> list[Bar]:
    trained = sum(row.trained for row in rows)
    out = sum(ran_out(row.peers.get(PLAIN, {})) is True for row in rows)
    whole = [row for row in rows if ran_out(row.planned) is not None]
    kept = sum(not ran_out(row.planned) and row.kept[0] == row.kept[1] for row in whole)
    programs = len({row.case.name for row in rows})
    ran = [peer for peer in PEERS[1:] if any(peer in row.peers for row in rows)]
    peers = ", ".join(
        f"{TITLES[peer]} {sum(ran_out(row.peers.get(peer, {})) is False for row in rows)}" for peer in ran
    )
    return [
        Bar(
            f"the planned step trains {STEPS} steps under a hard limit of its budget, on {programs} programs",
            f"{trained} of {len(rows)}" + (f" ({peers})" if peers else ""),
            trained == len(rows),
        ),
        Bar("the plain step runs out there", f"{out} of {len(rows)}", out == len(rows)),
        Bar(
            f"recorded peak at most the promised one in at least {KEPT_SHARE:.0%} of the runs",
            f"{kept} of {len(whole)}",
            bool(whole) and kept >= KEPT_SHARE * len(whole),
        ),
    ]


def _notes(rows: Sequence[PromiseRow]) -> list[str]:
    return [
        f"{row.case.name}, {row.share:.0%}, {way}: {result[reason]}"
        for row in rows
        for way, result in ((PLANNED, row.planned), *row.peers.items())
        for reason in ("refused", "failed")
        if reason in result
    ]
