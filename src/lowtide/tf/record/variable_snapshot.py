"""Copies of all variables before some steps, to restore them afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.tf.record.addresses import live_objects


class VariableSnapshot:
    """Copies of variables on the host, made before the first step that could change them.

    A step may change any variable of the process: weights, optimizer slots, metrics, averages, states of random number
    generators. Some are created only when the step is called for the first time.
    """

    def __init__(self) -> None:
        self._values: dict[int, tuple[Any, np.ndarray]] = {}
        self.add(live_objects()[0])

    def add(self, variables: Iterable[Any]) -> None:
        """Copy the variables that were not copied before."""
        for variable in variables:
            if id(variable) not in self._values:
                value = _copy_value(variable)
                if value is not None:
                    self._values[id(variable)] = (variable, value)

    @contextmanager
    def adding_new_variables(self) -> Iterator[None]:
        """Copy the variables that are created meanwhile, outside of traced functions, right after their creation."""

        def create(next_creator: Any, **settings: Any) -> Any:
            variable = next_creator(**settings)
            self.add([variable])
            return variable

        with tf.variable_creator_scope(create):
            yield

    def changed(self) -> list[Any]:
        """The variables whose values differ from their copies."""
        return [variable for variable, value in self._values.values() if not _is_same(value, _copy_value(variable))]

    def restore(self) -> None:
        """Assign the copied values to the variables that changed."""
        for variable in self.changed():
            with tf.device(variable.device):
                variable.assign(_allocated(self._values[id(variable)][1]))


def _copy_value(variable: Any) -> np.ndarray | None:
    """A copy of the value; None if the variable has no value, or belongs to a graph that a session runs."""
    try:
        return np.array(variable.numpy())
    except (NotImplementedError, AttributeError, ValueError, tf.errors.OpError):
        return None


def _allocated(value: np.ndarray) -> tf.Tensor:
    """A tensor in the allocator's memory: a variable would otherwise share the memory of the NumPy array."""
    tensor = tf.convert_to_tensor(value)
    return tensor if tensor.dtype == tf.string else tf.raw_ops.DeepCopy(x=tensor)


def _is_same(one: np.ndarray, other: np.ndarray | None) -> bool:
    """Whether two values are equal bit for bit, so that NaN equals itself."""
    if other is None or one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype == object:
        return bool(np.array_equal(one, other))
    return bool(np.array_equal(_bits(one), _bits(other)))


def _bits(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
