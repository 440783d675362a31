"""What every variable held before some steps were run, so that it holds the same afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.tf.record.addresses import live_objects


class Snapshot:
    """Copies of variables on the host, made before the first step that could change them.

    A step may change any variable of the process: weights, what optimizers keep, metrics, averages, the seeds of random
    numbers. Some come into being only when it is called for the first time.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, np.ndarray]] = {}
        self.keep(live_objects()[0])

    def keep(self, variables: Iterable[Any]) -> None:
        """Copy those that are not known yet."""
        for variable in variables:
            if id(variable) not in self._kept:
                value = _contents(variable)
                if value is not None:
                    self._kept[id(variable)] = (variable, value)

    @contextmanager
    def keeping_new_ones(self) -> Iterator[None]:
        """Copy variables that are created meanwhile, outside of traced functions, right after they are created."""

        def create(next_creator: Any, **settings: Any) -> Any:
            variable = next_creator(**settings)
            self.keep([variable])
            return variable

        with tf.variable_creator_scope(create):
            yield

    def changed(self) -> list[Any]:
        """The variables that hold something else by now."""
        return [variable for variable, value in self._kept.values() if not _same(value, _contents(variable))]

    def restore(self) -> None:
        """Put back what was there."""
        for variable in self.changed():
            with tf.device(variable.device):
                variable.assign(_in_the_allocator(self._kept[id(variable)][1]))


def _contents(variable: Any) -> np.ndarray | None:
    """A copy of what it holds; None if it holds nothing, or belongs to a graph that a session runs."""
    try:
        return np.array(variable.numpy())
    except (NotImplementedError, AttributeError, ValueError, tf.errors.OpError):
        return None


def _in_the_allocator(value: np.ndarray) -> tf.Tensor:
    """A tensor of the device's own: a variable that is given an array lies outside of the allocator from then on."""
    tensor = tf.convert_to_tensor(value)
    return tensor if tensor.dtype == tf.string else tf.raw_ops.DeepCopy(x=tensor)


def _same(one: np.ndarray, other: np.ndarray | None) -> bool:
    """Bit for bit: what is not a number equals itself here."""
    if other is None or one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype == object:
        return bool(np.array_equal(one, other))
    return bool(np.array_equal(_bits(one), _bits(other)))


def _bits(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
