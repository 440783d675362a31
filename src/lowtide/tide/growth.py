"""Whether memory grows from step to step, from a series of readings.

Bytes in use rise and fall for many reasons: the first steps allocate what stays, a validation needs more than a step,
Python collects its garbage now and then, a buffer is filled once. What a leak does and none of these do is lift the
*lowest* readings, again and again, to the end. So the readings after the warm-up are cut into windows, and only the
minimum of each window is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median

# The allocator settles within some ten steps: variables, slots, constants and the first chunks of each size.
_WARM_UP_STEPS = 10
_WARM_UP_SHARE = 0.2
_MOST_WINDOWS = 8
_FEWEST_SAMPLES = 12


@dataclass(frozen=True, slots=True)
class Growth:
    """Memory that grows: by how much per step, seen from which step to which.

    `confidence` is the share of windows whose lowest reading lies above all earlier ones.
    """

    bytes_per_step: float
    first_step: int
    last_step: int
    confidence: float

    @property
    def bytes(self) -> int:
        """What has been added between the first and the last step."""
        return round(self.bytes_per_step * (self.last_step - self.first_step))


def growth_of(samples: Sequence[tuple[int, int]], least_bytes: int = 0) -> Growth | None:
    """Return how memory grows over `samples` of (step, bytes), or None where it does not, or cannot be told yet.

    A rise of `least_bytes` or less in all is taken as noise.
    """
    steady = _after_warm_up(sorted(samples))
    if len(steady) < _FEWEST_SAMPLES:
        return None
    lows = [min(window, key=lambda sample: sample[1]) for window in _windows(steady)]
    values = [value for _, value in lows]
    if values[-1] - values[0] <= least_bytes or not _keeps_rising(values):
        return None
    # The median of all slopes does not follow a few windows that are off.
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(lows, 2) if b[0] > a[0]]
    per_step = median(slopes)
    if per_step <= 0:
        return None
    return Growth(per_step, steady[0][0], steady[-1][0], _records(values) / (len(values) - 1))


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
        # It came back down: a list that is emptied at each epoch, garbage that is collected.
        return False
    if max(b - a for a, b in pairwise(values)) > 0.5 * rise:
        # One jump, and no growth before or after that would explain it.
        return False
    # Growth that dies out is a warm-up longer than most. A leak adds a quarter or so in each quarter.
    recent = values[-1] - values[middle]
    return recent >= 0.25 * rise and _records(values) >= len(values) - 2


def _records(values: list[int]) -> int:
    return sum(value > max(values[:index]) for index, value in enumerate(values) if index)
