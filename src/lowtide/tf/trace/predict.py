"""The memory of a training step, and the largest batch within a budget, predicted before the step runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.errors import LowtideError
from lowtide.progress import Progress, ProgressCallback
from lowtide.tf.trace import tuning
from lowtide.tf.trace.step import Step
from lowtide.tf.trace.step_cache import find_near_step, find_step
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
    # Without a batch size the specs state it, and a step of another size would answer for that size.
    step = find_step(target, specs, batch_size, progress, exactly=batch_size is None)
    tide = step.tide(batch_size, progress, label)
    if timings is not None:
        timings.update(step.seconds)
    return tide


@dataclass(frozen=True)
class BatchAnswer:
    """The largest batch whose safe bound fits a budget, to within 1.6%; 0 if not even one example does."""

    batch_size: int
    budget_bytes: int
    safe_bytes: int
    """The safe bound at that batch size, or at a batch of 1 if nothing fits."""
    traced: tuple[int, ...]
    """The batch sizes that were traced."""


# A prime that other sizes of a program are rarely a multiple of, so that the batch can be distinguished from them.
FIRST_TRACED_BATCH = 23
MAX_TRACES = 4
# How many times the largest known batch a guess may be.
MAX_EXTRAPOLATION = 16
LARGEST_BATCH = (1 << 31) - 1


def max_batch_size(
    target: Any, *specs: Any, budget: str | int, progress: ProgressCallback | None = None, largest: int = 1 << 20
) -> BatchAnswer:
    """Find the largest batch whose safe bound stays within the budget, without running anything.

    A program that was traced before is not traced again where its graph at another batch size is certain; otherwise the
    result is traced itself in the end.
    """
    budget_bytes = parse_bytes(budget)
    near = find_near_step(target, specs, FIRST_TRACED_BATCH)
    guess = FIRST_TRACED_BATCH if near is None or near.batch_size is None else near.batch_size
    traced: dict[int, Step] = {}
    while True:
        traced[guess] = find_step(target, specs, guess, progress, exactly=True)
        bound = _bound_of(traced, progress)
        found = solve_batch(bound, budget_bytes, largest, guess, tuning.BATCH_TOLERANCE)
        is_known = any(step.rescales_to(max(found, 1)) for step in traced.values())
        if is_known or found in (0, guess) or found in traced or len(traced) == MAX_TRACES:
            return BatchAnswer(found, budget_bytes, bound(max(found, 1)), tuple(sorted(traced)))
        guess = found


def _bound_of(traced: dict[int, Step], progress: ProgressCallback | None) -> Callable[[int], int]:
    """Return a function from batch size to safe bound, which rescales the nearest traced size."""
    known: dict[int, int] = {}
    started = time.perf_counter()

    def bound(batch_size: int) -> int:
        if batch_size not in known:
            if progress is not None and known:
                each = (time.perf_counter() - started) / len(known)
                left = each * max(tuning.TRIED_BATCHES - len(known), 1)
                progress(Progress("looking for the largest batch", left_seconds=left))
            nearest = min(traced, key=lambda size: abs(math.log(size / batch_size)))
            known[batch_size] = traced[nearest].safe_bytes(batch_size)
        return known[batch_size]

    return bound


def solve_batch(bound: Callable[[int], int], budget: int, largest: int, first: int, tolerance: float = 0.0) -> int:
    """Find the largest batch within the budget by secants, since memory grows almost linearly with the batch.

    The result fits. Either its bound is within the `tolerance`, as a share, of the budget, or a batch that is larger by
    that share does not fit.
    """
    aim = int(budget * (1.0 - tolerance / 2))
    low, high = 0, largest + 1
    guess = min(first, largest)
    known: dict[int, int] = {}
    while high - low > max(1.0, tolerance * low):
        width = high - low
        known[guess] = bound(guess)
        if known[guess] <= budget:
            low = guess
            if tolerance and known[guess] >= budget * (1.0 - tolerance):
                break
        else:
            high = guess
        guess = _next_guess(known, aim, low, high)
        # Allocator regions double, so the bound has steps; where secants converge too slowly, bisect.
        if high <= largest and 2 * (high - low) > width:
            guess = (low + high) // 2
    return low


def _next_guess(known: dict[int, int], budget: int, low: int, high: int) -> int:
    if len(known) == 1:
        # What does not grow with the batch makes this too small rather than too large.
        only = next(iter(known))
        return min(max(only * budget // max(known[only], 1), low + 1), high - 1)
    left, right = sorted(sorted(known, key=lambda size: abs(known[size] - budget))[:2])
    slope = max((known[right] - known[left]) / (right - left), 1.0)
    guess = math.floor(left + (budget - known[left]) / slope)
    # Do not extrapolate far beyond the known sizes.
    return min(max(guess, low + 1), high - 1, MAX_EXTRAPOLATION * max(known))


def check_batch_size(batch_size: Any) -> None:
    """Raise an error unless this is a batch size or None."""
    if batch_size is None:
        return
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise LowtideError("a batch size is a whole number of at least 1", given=repr(batch_size), cure="try 32")
    if batch_size > LARGEST_BATCH:
        cure = f"use at most {LARGEST_BATCH:,}: TensorFlow computes shapes in 32-bit integers"
        raise LowtideError("the batch has more rows than a shape can have", given=f"{batch_size:,} rows", cure=cure)
