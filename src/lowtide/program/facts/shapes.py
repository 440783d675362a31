"""Arithmetic that facts share: element counts, byte counts and alignment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from lowtide.program.dtypes import DTYPES
from lowtide.program.graph import NodeView, Shape

# The alignment that Eigen requires in TensorFlow's wheels: a slice is a view only at such addresses.
ALIGNMENT_BYTES = 64

_BYTES_BY_NAME = dict(DTYPES.values())

_Item = TypeVar("_Item")


class UnknownShape(LookupError):
    """A fact needs a shape or a value that is unknown."""


def item_bytes(dtype: str) -> int:
    """Return the bytes of one element of a dtype, by its name."""
    return _BYTES_BY_NAME.get(dtype, 4)


def input_shape(node: NodeView, index: int) -> Shape:
    """Return the shape of an input; raises UnknownShape."""
    shape = node.input_shape(index) if index < node.input_count else None
    if shape is None or any(size < 0 for size in shape):
        raise UnknownShape(f"{node.name}: input {index}")
    return shape


def output_shape(node: NodeView, index: int = 0) -> Shape:
    """Return the shape of an output; raises UnknownShape."""
    shape = node.output_shape(index)
    if shape is None or any(size < 0 for size in shape):
        raise UnknownShape(f"{node.name}: output {index}")
    return shape


def input_values(node: NodeView, index: int) -> list[int]:
    """Return the contents of a small constant input, flattened; raises UnknownShape."""
    value = node.input_value(index)
    if value is None:
        raise UnknownShape(f"{node.name}: value of input {index}")
    return [int(item) for item in value.ravel().tolist()]


def elements(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape: 1 for a scalar."""
    return math.prod(shape)


def known(function: Callable[[NodeView], Sequence[_Item]]) -> Callable[[NodeView], Sequence[_Item]]:
    """Wrap a function so that it returns an empty sequence if a shape or a value that it needs is unknown."""

    def guarded(node: NodeView) -> Sequence[_Item]:
        try:
            return function(node)
        except UnknownShape:
            return ()

    return guarded


def divide_up(value: int, by: int) -> int:
    """Return the quotient, rounded up."""
    return -(-value // by)


def round_up(value: int, to: int) -> int:
    """Return the next multiple of `to`."""
    return divide_up(value, to) * to


def rows_are_aligned(shape: Sequence[int], item: int) -> bool:
    """Whether each row along the first dimension starts at an aligned address."""
    if not shape or shape[0] == 0:
        return False
    return (elements(shape[1:]) * item) % ALIGNMENT_BYTES == 0


def slice_is_aligned(shape: Sequence[int], item: int, start: int, stop: int) -> bool:
    """Whether rows `start` to `stop` begin and end at aligned addresses."""
    if len(shape) == 1:
        return (start * item) % ALIGNMENT_BYTES == 0 and (stop * item) % ALIGNMENT_BYTES == 0
    return rows_are_aligned(shape, item)
