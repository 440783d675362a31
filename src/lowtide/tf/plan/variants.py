"""Variants of a Keras model's step: plain, in micro-batches, in another precision.

They are tried in this order, so that results change only where that is necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import keras

from lowtide.errors import LowtideError
from lowtide.planning.allowance import BFLOAT16, FLOAT16, MICROBATCH
from lowtide.planning.plan import MICROBATCH as SPLIT
from lowtide.planning.plan import PRECISION, RECOMPUTE, Action
from lowtide.planning.tuning import TUNING
from lowtide.tf.microbatch.cross_row_layers import changes_statistics, micro_batch_notes
from lowtide.tf.microbatch.micro_batches import split_step
from lowtide.tf.plan.precision import set_precision, with_precision


@dataclass(frozen=True)
class Variant:
    """One way to train a model on a batch."""

    model: keras.Model
    pieces: int = 1
    precision: str | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def is_plain(self) -> bool:
        """Whether it is the unchanged step."""
        return self.pieces == 1 and self.precision is None

    @property
    def train_step(self) -> Callable[[Any], Any]:
        """The replacement of `model.train_step`."""
        step: Callable[[Any], Any] = split_step(self.model, self.pieces) if self.pieces > 1 else self.model.train_step
        return step

    def meanwhile(self) -> AbstractContextManager[Any]:
        """Return a context in which the model has this precision, to trace it."""
        return nullcontext() if self.precision is None else with_precision(self.model, self.precision)

    def settle(self) -> None:
        """Set the precision of the model, to train it."""
        if self.precision is not None:
            set_precision(self.model, self.precision)

    def actions(self) -> tuple[Action, ...]:
        """Return its actions in a plan."""
        made = []
        if self.pieces > 1:
            reason = f"{self.pieces} micro-batches one after the other, their gradients summed and applied once"
            made.append(Action(SPLIT, "batch", None, None, 0, 0.0, reason))
        if self.precision is not None:
            made.append(Action(PRECISION, self.model.name, None, None, 0, 0.0, f"layers compute in {self.precision}"))
        return tuple(made)


def check_only(only: str | None) -> None:
    """Check the `only` argument of a plan within a budget."""
    if only not in (None, RECOMPUTE):
        raise LowtideError(
            "a plan within a budget cannot be that alone", given=f"only={only!r}", cure=f"try {RECOMPUTE!r}"
        )


def variants_of(
    model: keras.Model, allow: Sequence[str], rows: int | None, only: str | None = None
) -> Iterator[Variant]:
    """Yield the allowed variants, the plain one first; with `only="recompute"` no other."""
    yield Variant(model)
    if only == RECOMPUTE:
        return
    splits = list(_splits(model, allow, rows))
    yield from splits
    for name in (BFLOAT16, FLOAT16):
        if name in allow:
            yield Variant(model, precision=f"mixed_{name}")
            for split in splits:
                yield Variant(model, split.pieces, f"mixed_{name}", split.notes)


def allowable(model: keras.Model, allow: Sequence[str]) -> tuple[str, ...]:
    """Return what is not allowed yet and might help."""
    in_float32 = any(layer.compute_dtype == "float32" for layer in model._flatten_layers())
    more = [BFLOAT16] if in_float32 and not {BFLOAT16, FLOAT16} & set(allow) else []
    if MICROBATCH not in allow and _can_split(model) and changes_statistics(model):
        more.insert(0, MICROBATCH)
    return tuple(more)


def _splits(model: keras.Model, allow: Sequence[str], rows: int | None) -> Iterator[Variant]:
    if not rows or not _can_split(model):
        return
    if MICROBATCH not in allow and changes_statistics(model):
        return
    pieces = 2
    while pieces <= min(rows, TUNING.most_pieces):
        yield Variant(model, pieces, None, tuple(micro_batch_notes(model, pieces)))
        pieces *= 2


def _can_split(model: keras.Model) -> bool:
    try:
        split_step(model, 2)
    except LowtideError:
        return False
    return True
