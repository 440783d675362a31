"""Predict: how much memory a training step takes, before it runs."""

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
    """The tide of one training step of a compiled Keras model, or of a step function with the specs of its inputs."""
    check_batch_size(batch_size)
    step = find_step(target, specs, batch_size, progress)
    tide = step.tide(batch_size, progress, label)
    if timings is not None:
        timings.update(step.seconds)
    return tide


@dataclass(frozen=True)
class BatchAnswer:
    """The largest batch that is sure to fit a budget; 0 when not even one example does."""

    batch_size: int
    budget_bytes: int
    safe_bytes: int
    """The safe bound at that batch size, or at a batch of 1 when nothing fits."""
    traced: tuple[int, ...]
    """The batch sizes that were traced."""


# A batch this large is telling: no other size of the program is a multiple of it by accident.
FIRST_TRACED_BATCH = 23
LARGEST_TRACES = 4
FARTHEST_GUESS = 4


def max_batch_size(
    target: Any, *specs: Any, budget: str | int, progress: ProgressCallback | None = None, largest: int = 1 << 20
) -> BatchAnswer:
    """The largest batch whose safe bound stays within the budget, found by solving, not by trying it out.

    The program is traced for one batch size and looked at with others; the answer is traced itself in the end.
    """
    budget_bytes = parse_bytes(budget)
    traced: dict[int, Step] = {}
    guess = FIRST_TRACED_BATCH
    while True:
        traced[guess] = find_step(target, specs, guess, progress, exactly=True)
        bound = _bound_of(traced)
        found = solve_batch(bound, budget_bytes, largest, guess)
        if found in (0, guess) or found in traced or len(traced) == LARGEST_TRACES:
            return BatchAnswer(found, budget_bytes, bound(max(found, 1)), tuple(sorted(traced)))
        guess = found


def _bound_of(traced: dict[int, Step]) -> Callable[[int], int]:
    """The safe bound at any batch size, from the traced size that is nearest."""
    known: dict[int, int] = {}

    def bound(batch_size: int) -> int:
        if batch_size not in known:
            nearest = min(traced, key=lambda size: abs(math.log(size / batch_size)))
            known[batch_size] = traced[nearest].safe_bytes(batch_size)
        return known[batch_size]

    return bound


def solve_batch(bound: Callable[[int], int], budget: int, largest: int, first: int) -> int:
    """The largest batch within the budget: memory grows almost linearly, so lines through known sizes close in fast."""
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
        # Regions double, so the bound has steps; where a line closes in too slowly, the middle does not.
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
    # A line says little far beyond what is known.
    return min(max(guess, low + 1), high - 1, FARTHEST_GUESS * max(known))


def check_batch_size(batch_size: Any) -> None:
    if batch_size is None:
        return
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise LowtideError("a batch size is a whole number of at least 1", given=repr(batch_size), cure="try 32")
