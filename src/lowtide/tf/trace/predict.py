"""The memory of a training step, and the largest batch within a budget, predicted before the step runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lowtide.errors import LowtideError
from lowtide.progress import ProgressCallback
from lowtide.tf.trace.step import Step
from lowtide.tf.trace.step_cache import find_step
from lowtide.tide.tide import Tide
from lowtide.units import parse_bytes


def predict(
    target: Any,
    *specs: Any,
    batch_size: int | None = None,
    progress: ProgressCallback | None = None,
    timings: dict[str, float] | None = None,
    label: str | None = None,
) -> Tide:
    """Predict the tide of one training step of a compiled Keras model, or of a function with specs of its inputs."""
    check_batch_size(batch_size)
    step = find_step(target, specs, batch_size, progress)
    tide = step.tide(batch_size, progress, label)
    if timings is not None:
        timings.update(step.seconds)
    return tide


@dataclass(frozen=True)
class BatchAnswer:
    """The largest batch whose safe bound fits a budget; 0 if not even one example does."""

    batch_size: int
    budget_bytes: int
    safe_bytes: int
    """The safe bound at that batch size, or at a batch of 1 if nothing fits."""
    traced: tuple[int, ...]
    """The batch sizes that were traced."""


# A prime that other sizes of a program are rarely a multiple of, so that the batch can be told from them.
FIRST_TRACED_BATCH = 23
MAX_TRACES = 4
# How many times the largest known batch a guess may be.
MAX_EXTRAPOLATION = 4


def max_batch_size(
    target: Any, *specs: Any, budget: str | int, progress: ProgressCallback | None = None, largest: int = 1 << 20
) -> BatchAnswer:
    """Find the largest batch whose safe bound stays within the budget, without running anything.

    The program is traced for one batch size and rescaled to others; the result is traced itself in the end.
    """
    budget_bytes = parse_bytes(budget)
    traced: dict[int, Step] = {}
    guess = FIRST_TRACED_BATCH
    while True:
        traced[guess] = find_step(target, specs, guess, progress, exactly=True)
        bound = _bound_of(traced)
        found = solve_batch(bound, budget_bytes, largest, guess)
        if found in (0, guess) or found in traced or len(traced) == MAX_TRACES:
            return BatchAnswer(found, budget_bytes, bound(max(found, 1)), tuple(sorted(traced)))
        guess = found


def _bound_of(traced: dict[int, Step]) -> Callable[[int], int]:
    """Return a function from batch size to safe bound, which rescales the nearest traced size."""
    known: dict[int, int] = {}

    def bound(batch_size: int) -> int:
        if batch_size not in known:
            nearest = min(traced, key=lambda size: abs(math.log(size / batch_size)))
            known[batch_size] = traced[nearest].safe_bytes(batch_size)
        return known[batch_size]

    return bound


def solve_batch(bound: Callable[[int], int], budget: int, largest: int, first: int) -> int:
    """Find the largest batch within the budget by secants, since memory grows almost linearly with the batch."""
    low, high = 0, largest + 1
    guess = min(first, largest)
    known: dict[int, int] = {}
    while high - low > 1:
        width = high - low
        known[guess] = bound(guess)
        if known[guess] <= budget:
            low = guess
        else:
            high = guess
        guess = _next_guess(known, budget, low, high)
        # Allocator regions double, so the bound has steps; where secants converge too slowly, bisect.
        if high <= largest and 2 * (high - low) > width:
            guess = (low + high) // 2
    return low


def _next_guess(known: dict[int, int], budget: int, low: int, high: int) -> int:
    if len(known) == 1:
        only = next(iter(known))
        return min(max(only // 2 if known[only] > budget else only * 2, low + 1), high - 1)
    left, right = sorted(sorted(known, key=lambda size: abs(known[size] - budget))[:2])
    slope = max((known[right] - known[left]) / (right - left), 1.0)
    guess = math.floor(left + (budget - known[left]) / slope)
    # Do not extrapolate far beyond the known sizes.
    return min(max(guess, low + 1), high - 1, MAX_EXTRAPOLATION * max(known))


def check_batch_size(batch_size: Any) -> None:
    """Raise an error unless this is a batch size or None."""
    if batch_size is None:
        return
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise LowtideError("a batch size is a whole number of at least 1", given=repr(batch_size), cure="try 32")
