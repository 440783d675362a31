"""Detects memory that grows from step to step in a series of samples.

The bytes in use rise and fall for many reasons: the first steps allocate lasting buffers, validation needs more memory
than a training step, Python collects garbage from time to time, a shuffle buffer fills once. Only a leak keeps raising
the *lowest* samples until the end. So the samples after the warm-up are divided into windows, and only the minimum of
each window counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median

# The allocator settles within about ten steps: variables, slots, constants and the first chunks of each size.
_WARM_UP_STEPS = 10
_WARM_UP_SHARE = 0.2
_MOST_WINDOWS = 8
_FEWEST_SAMPLES = 12


@dataclass(frozen=True, slots=True)
class MemoryGrowth:
    """Memory that grows: the bytes per step, and the first and last step of the samples."""

    bytes_per_step: float
    first_step: int
    last_step: int

    @property
    def bytes(self) -> int:
        """The growth between the first and the last step."""
        return round(self.bytes_per_step * (self.last_step - self.first_step))


def find_growth(samples: Sequence[tuple[int, int]], least_bytes: int = 0) -> MemoryGrowth | None:
    """Return the growth over `samples` of (step, bytes), or None if there is none or there are too few samples.

    A total rise of `least_bytes` or less counts as noise.
    """
    steady = _after_warm_up(sorted(samples))
    if len(steady) < _FEWEST_SAMPLES:
        return None
    lows = [min(window, key=lambda sample: sample[1]) for window in _windows(steady)]
    values = [value for _, value in lows]
    if values[-1] - values[0] <= least_bytes or not _keeps_rising(values):
        return None
    # The median of all slopes is robust against a few outliers.
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(lows, 2) if b[0] > a[0]]
    per_step = median(slopes)
    if per_step <= 0:
        return None
    return MemoryGrowth(per_step, steady[0][0], steady[-1][0])


def _after_warm_up(samples: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if not samples:
        return []
    first, last = samples[0][0], samples[-1][0]
    start = first + max(_WARM_UP_STEPS, _WARM_UP_SHARE * (last - first))
    return [sample for sample in samples if sample[0] >= start]


def _windows(samples: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    count = min(len(samples) // 2, _MOST_WINDOWS)
    edges = [round(index * len(samples) / count) for index in range(count + 1)]
    return [samples[start:end] for start, end in pairwise(edges)]


def _keeps_rising(values: list[int]) -> bool:
    rise = values[-1] - values[0]
    middle = len(values) // 2
    if min(values[middle:]) <= max(values[:middle]):
        # The memory was freed again: a list that is cleared at each epoch, or garbage collection.
        return False
    if max(b - a for a, b in pairwise(values)) > 0.5 * rise:
        # A single jump is no growth.
        return False
    # Growth that slows down is a long warm-up. A leak adds about a quarter of the rise in each quarter.
    recent = values[-1] - values[middle]
    return recent >= 0.25 * rise and _count_records(values) >= len(values) - 2


def _count_records(values: list[int]) -> int:
    return sum(value > max(values[:index]) for index, value in enumerate(values) if index)
