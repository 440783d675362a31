"""What recording costs: the same steps of plain and of recorded runs, side by side."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# lowtide records the steps 1 to 2 and 11 to 13: EARLY_STEPS and FIRST_STEADY_STEP of lowtide.tf.record.recorder. Step 1
# is left out, because tracing takes most of its time.
RECORDED_STEPS = (2, 11, 12, 13)
# The second window opens with a look at where the variables are.
OPENING_STEP = 11
# The step that follows a window begins with writing the record down.
CLOSING_STEPS = (3, 14)

Runs = Sequence[Sequence[float]]
"""The seconds of each step of each run."""


@dataclass(frozen=True)
class Overhead:
    """Ratios of recorded to plain runs; each step counts with its median over the runs."""

    recording: float
    """Of the recorded steps."""
    recording_noise: tuple[float, float]
    """The lowest and the highest plain run against the median of the plain runs, over the same steps."""
    opening: float
    """The seconds that the step which opens the second window takes longer; they are part of `recording`."""
    with_pause: float
    """Of the recorded steps and those that write the record down."""
    pauses: tuple[float, ...]
    """The seconds that a step which writes the record down takes longer than it does in a plain run."""
    after: float
    """Of the steps in which nothing is recorded."""
    after_noise: tuple[float, float]


def compare(plain: Runs, recorded: Runs) -> Overhead:
    """The cost of recording, from the same number of steps of each run."""
    count = min(len(run) for run in (*plain, *recorded))
    rest = [step for step in range(1, count + 1) if step not in (1, *RECORDED_STEPS, *CLOSING_STEPS)]
    base, seen = _typical(plain, count), _typical(recorded, count)
    return Overhead(
        recording=_ratio(seen, base, RECORDED_STEPS),
        recording_noise=_noise(plain, base, RECORDED_STEPS),
        opening=seen[OPENING_STEP - 1] - base[OPENING_STEP - 1],
        with_pause=_ratio(seen, base, (*RECORDED_STEPS, *CLOSING_STEPS)),
        pauses=tuple(seen[step - 1] - base[step - 1] for step in CLOSING_STEPS),
        after=_ratio(seen, base, rest),
        after_noise=_noise(plain, base, rest),
    )


def is_unmeasurable(ratio: float, noise: tuple[float, float], least: float = 0.01) -> bool:
    """Whether a ratio is less above 1 than plain runs are among themselves, or than one percent."""
    return ratio <= max(noise[1], 1 + least)


def _typical(runs: Runs, count: int) -> list[float]:
    return [statistics.median(run[step] for run in runs) for step in range(count)]


def _ratio(some: Sequence[float], others: Sequence[float], steps: Sequence[int]) -> float:
    return sum(some[step - 1] for step in steps) / sum(others[step - 1] for step in steps)


def _noise(runs: Runs, base: Sequence[float], steps: Sequence[int]) -> tuple[float, float]:
    ratios = [_ratio(run, base, steps) for run in runs]
    return min(ratios), max(ratios)
