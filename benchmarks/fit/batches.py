"""The largest batch in the bytes that a plain step needs: planned, and with the peers' recomputation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.common.processes import MEBIBYTE
from benchmarks.common.report import Bar, Section, mebibytes
from benchmarks.fit.runs import Measured, Runs, ran_out, start
from benchmarks.fit.suite import BLOCKS, LARGER_BATCHES, RECOMPUTED, ROOT, TITLES, Case

PEERS = (BLOCKS, ROOT)
STEPS = 6
# How many batches are tried, each smaller than the one before, when the one that should fit does not.
ATTEMPTS = 3


@dataclass(frozen=True)
class BatchRow:
    """One case: how much larger its batch may be."""

    case: Case
    budget_bytes: int
    search: Measured
    trained: dict[int, Measured] = field(default_factory=dict)
    """By batch, what was tried under the limit."""
    peers: dict[str, int] = field(default_factory=dict)

    @property
    def largest(self) -> int | None:
        """The largest batch that has a plan and was trained under the limit."""
        return max((batch for batch, result in self.trained.items() if ran_out(result) is False), default=None)


def measure(case: Case, runs: Runs) -> BatchRow:
    reference = runs.reference(case)
    if "peaks" not in reference:
        return BatchRow(case, 0, reference)
    budget = -(-max(reference["peaks"]) // MEBIBYTE) * MEBIBYTE
    arguments = [case.name, "--budget", str(budget)]
    search = runs.once(
        f"{case.name} largest batch", lambda: start("largest", arguments), repr(case), budget, by_lowtide=True
    )
    trained: dict[int, Measured] = {}
    for batch in _downwards(case, search.get("largest", 0)):
        trained[batch] = runs.train(
            case,
            RECOMPUTED,
            f"batch {batch} in the plain bytes",
            limit_bytes=budget,
            budget_bytes=budget,
            batch_size=batch,
            by_lowtide=True,
        )
        if ran_out(trained[batch]) is False:
            break
    return BatchRow(case, budget, search, trained, {peer: _largest(case, peer, budget, runs) for peer in PEERS})


def _downwards(case: Case, batch: int) -> list[int]:
    """The largest whole number of strides in a batch, and the next smaller ones."""
    stride = max(case.batch_size // 8, 1)
    return [smaller for attempt in range(ATTEMPTS) if (smaller := (batch // stride - attempt) * stride) > 0]


def _largest(case: Case, peer: str, budget: int, runs: Runs) -> int:
    """Where the line through two measured batches meets the budget, if that batch is then trained under it."""
    first, second = case.batch_size, 2 * case.batch_size
    peaks = []
    for batch in (first, second):
        seen = runs.train(case, peer, f"batch {batch}", batch_size=batch, steps=STEPS)
        if "peaks" not in seen:
            return 0
        peaks.append(max(seen["peaks"]))
    for batch in _downwards(case, meet(first, peaks[0], second, peaks[1], budget)):
        label = f"batch {batch} in the plain bytes"
        if not ran_out(runs.train(case, peer, label, limit_bytes=budget, batch_size=batch, steps=STEPS)):
            return batch
    return 0


def meet(first: int, first_bytes: int, second: int, second_bytes: int, budget: int) -> int:
    """The batch at which a line through two batches reaches the budget."""
    slope = (second_bytes - first_bytes) / (second - first)
    return int(first + (budget - first_bytes) / slope) if slope > 0 else second


COLUMNS = ("program", "bytes", "plain", "planned", "times", "bar", *(TITLES[peer] for peer in PEERS))


def report(rows: Sequence[BatchRow]) -> Section:
    cells = []
    bars = []
    for row in rows:
        bar, times = LARGER_BATCHES[row.case.name], None
        if row.largest is not None:
            times = row.largest / row.case.batch_size
        seen = "no answer" if times is None else f"{times:.2f}"
        cells.append(
            [
                row.case.name,
                mebibytes(row.budget_bytes),
                str(row.case.batch_size),
                str(row.largest or "n/a"),
                seen,
                f"{bar:.2f}",
                *(str(row.peers.get(peer) or "none") for peer in PEERS),
            ]
        )
        words = f"{row.case.name}: a batch {bar:.2f} times as large in the plain bytes"
        bars.append(Bar(words, seen, times is not None and times >= bar))
    notes = [
        f"{row.case.name}: {result[reason]}"
        for row in rows
        for result in (row.search, *row.trained.values())
        for reason in ("refused", "failed", "error", "crashed")
        if reason in result
    ]
    return Section("The largest batch in the same bytes", COLUMNS, cells, bars, notes)
