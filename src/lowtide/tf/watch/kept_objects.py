"""Tensors, arrays and whole models that Python or TensorFlow keeps from step to step.

TensorFlow numbers each eager tensor when it is created. A list of tensors that is emptied from time to time holds
recent tensors only; one that leaks holds tensors of every age.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from tensorflow.python.eager.backprop import GradientTape

from lowtide.tf.references.gc_objects import instances_of
from lowtide.tf.references.holders import KeptTensor, kept_tensors, kept_variables, live_tensors, live_variables
from lowtide.tf.references.referrers import holders_of
from lowtide.tf.watch.finding import Finding
from lowtide.tf.watch.kept_kinds import advise
from lowtide.tf.watch.release import dead_models, entry_names
from lowtide.tf.watch.report import FEWEST_STEPS
from lowtide.units import format_bytes, format_count

_AGES = 6
_MIN_COUNT = FEWEST_STEPS
# One tensor per epoch is bookkeeping; one in seven steps is not, nor is a page in each step.
_MIN_PER_STEP = 0.15
_MIN_BYTES_PER_STEP = 4096
_MIN_MODELS = 2
# A model that is compiled again for each phase of its training leaves one optimizer behind each time.
_MIN_OPTIMIZERS = 6
_MAX_EXAMPLES = 2
KEPT_TENSORS, KEPT_ARRAYS = "kept tensors", "kept arrays"
_VARIABLES_FIX = "create variables once, before the loop, and assign to them; keep values in a file"
# The memory of a tensor besides its elements: a buffer, a handle and the Python object.
_OVERHEAD_BYTES = 256


class TensorAges:
    """Maps the number of a tensor to the step in which it was created."""

    def __init__(self, first: int) -> None:
        self.numbers = [first]
        self.steps = [0]

    def note(self, number: int, step: int) -> None:
        if step > self.steps[-1]:
            self.numbers.append(number)
            self.steps.append(step)

    def close(self, number: int, step: int) -> None:
        """Record the newest number at the current step. Without any step the numbers themselves measure time."""
        if self.steps[-1] == 0 and step == 0:
            step = number - self.numbers[0]
        self.note(number, step)

    def has_every_age(self, numbers: Iterable[int]) -> bool:
        """Whether the tensors come from (nearly) every part of the run, including one of the last two."""
        since = np.array([each for each in numbers if each > self.numbers[0]])
        # Tensors are assumed to be created at a constant rate between two records.
        steps = np.interp(since, self.numbers, self.steps)
        parts = set(np.minimum(steps * _AGES // max(self.steps[-1], 1), _AGES - 1).tolist())
        return len(parts) >= _AGES - 1 and bool(parts & {_AGES - 1, _AGES - 2})


def kept_findings(ages: TensorAges, steps: int) -> list[Finding]:
    """Findings for the holders that keep tensors or variables of every age since the watch began."""
    born = ages.numbers[0]
    found = []
    if ages.has_every_age(each._id for each in live_tensors()):
        found += _by_holder("tensor", kept_tensors(created_after=born, addresses=False), ages, steps)
    if ages.has_every_age(each.handle._id for each in live_variables()):
        found += _by_holder("variable", kept_variables(created_after=born), ages, steps)
    return found


def _by_holder(noun: str, kept: list[KeptTensor], ages: TensorAges, steps: int) -> list[Finding]:
    groups: dict[str, list[KeptTensor]] = defaultdict(list)
    for each in kept:
        if not each.bounded:
            groups[each.root].append(each)
    return [_kept(noun, group, steps) for group in groups.values() if _grew(group, ages, steps)]


def _grew(group: list[KeptTensor], ages: TensorAges, steps: int) -> bool:
    if len(group) < _MIN_COUNT or not ages.has_every_age(kept.created for kept in group):
        return False
    total = sum(kept.bytes for kept in group)
    return len(group) >= _MIN_PER_STEP * steps or total >= _MIN_BYTES_PER_STEP * steps


def _kept(noun: str, group: list[KeptTensor], steps: int) -> Finding:
    total = sum(kept.bytes + _OVERHEAD_BYTES for kept in group)
    shapes = Counter(f"{kept.dtype}{list(kept.shape)}" for kept in group).most_common(_MAX_EXAMPLES)
    what = f"{format_count(len(group), noun)} such as {' and '.join(shape for shape, _ in shapes)} are kept"
    who, source = _holder_of_all(group)
    fix = _VARIABLES_FIX if noun == "variable" else advise(group)
    tapes = instances_of(GradientTape) if not group[0].root else []
    if tapes:
        # The holder of the tapes that are alive: they keep tensors to which no Python object refers.
        holder, _ = Counter(holders_of(tapes)).most_common(1)[0]
        who, source = f"GradientTapes that are alive: {holder.text}", holder.source
        fix = "release tapes: del tape after its last gradient, and record nothing outside of the step"
    per_step = round(total / steps) if steps else None
    return Finding(KEPT_TENSORS, f"{what} from every part of the run", who, source, per_step, fix)


def _holder_of_all(group: list[KeptTensor]) -> tuple[str, str | None]:
    """The holder of all these tensors: with its path if it is the same for all."""
    texts = {kept.holder for kept in group}
    (source, _), *_ = Counter(kept.source for kept in group).most_common(1)
    if not group[0].root:
        return "nothing in Python that could be named: perhaps an extension module", None
    return (texts.pop() if len(texts) == 1 else group[0].root), source


def growing_tensor(earlier: dict[str, int], growth: int, steps: int) -> list[Finding]:
    """A holder whose tensors account for much of the growth since `earlier` was recorded."""
    for kept in kept_tensors(min_bytes=_MIN_BYTES_PER_STEP, addresses=False):
        more = kept.bytes - earlier.get(kept.holder, kept.bytes)
        if kept.holder in earlier and more > 0.2 * growth * steps:
            what = f"a tensor that grows: {kept.dtype}{list(kept.shape)} now"
            fix = "write the added values to disk or to a bounded buffer, and do not concatenate in each step"
            return [Finding(KEPT_TENSORS, what, kept.holder, kept.source, growth, fix)]
    return []


def largest_by_holder() -> dict[str, int]:
    return {kept.holder: kept.bytes for kept in reversed(kept_tensors(min_bytes=_MIN_BYTES_PER_STEP, addresses=False))}


# Gradient functions that were registered during any watch: a search may use a new watch for each model.
_registered: set[str] = set()


def note_registered(before: frozenset[str]) -> None:
    """Remember the gradient functions registered since `before`, and forget those that were released."""
    names = entry_names()
    _registered.update(names - before)
    _registered.intersection_update(names)


def model_findings(steps: int) -> list[Finding]:
    """Discarded models whose weights TensorFlow keeps, over all watches of the process."""
    dead = dead_models(among=_registered)
    if sum(model.whole for model in dead) < _MIN_MODELS and len(dead) < _MIN_OPTIMIZERS:
        return []
    total = sum(model.bytes for model in dead)
    return [
        Finding(
            "models in a loop",
            f"{format_count(len(dead), 'discarded model or optimizer', 'discarded models or optimizers')} still hold"
            f" {format_bytes(total)} of weights and slots",
            "TensorFlow's registry of gradients keeps the graph of each training step, and the graph its variables;"
            " clear_session does not empty it",
            dead[-1].source,
            round(total / steps) if steps else None,
            "call lt.release(model) when a model is no longer needed, or lt.release() for all discarded ones;"
            " or build one model and load its initial weights again",
        )
    ]


def array_findings(growth: int, steps: int) -> list[Finding]:
    """A list or dictionary of NumPy arrays that accounts for much of the growth of the process."""
    best: tuple[int, int, Any] | None = None
    for container in gc.get_objects():
        if type(container) not in (list, dict, set, tuple) or len(container) < _MIN_COUNT:
            continue
        values = container.values() if type(container) is dict else container
        arrays = [each for each in values if type(each) is np.ndarray] if _has_array(values) else []
        total = sum(array.nbytes for array in arrays)
        if len(arrays) >= _MIN_COUNT and (best is None or total > best[0]):
            best = (total, len(arrays), container)
    if best is None or not 0.3 * growth * steps <= best[0]:
        return []
    total, count, container = best
    (holder,) = holders_of([container], ignore=(id(best),))
    fix = "write results to a file, or keep only what is needed of each: a mean, a few rows"
    what = f"{count} NumPy arrays of {format_bytes(total)} in all are kept"
    return [] if holder.bounded else [Finding(KEPT_ARRAYS, what, holder.text, holder.source, growth, fix)]


def _has_array(values: Any) -> bool:
    return any(type(each) is np.ndarray for each in values)
