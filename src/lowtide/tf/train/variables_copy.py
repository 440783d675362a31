"""Copies the values of variables, so that a thread can write them while the training goes on.

The copy is in memory of its own, not in that of TensorFlow's allocator: there it would be in the way of planned steps.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from lowtide.run.machine import available_bytes
from lowtide.tf.record.device import device_name, limit_bytes, peak_bytes_in_use
from lowtide.tf.train.variables import VariablePiece, pieces_of

LEAST_BYTES = 16 << 20
"""Smaller variables are written within 30 ms, which a copy is not worth."""
_HOST_SHARE = 0.5
# TensorFlow copies arrays with another alignment.
_ALIGNMENT = 64
# Types of arrays that NumPy shares with other libraries; bfloat16 is not NumPy's own.
_NUMPYS_OWN, _SHARED_KINDS = 1, "biufc"


@dataclass(frozen=True)
class CopiedPiece:
    """A piece whose value is that of the variable when it was copied."""

    name: str
    layout: str
    value: npt.NDArray[Any]

    @property
    def bytes(self) -> int:
        return self.value.nbytes

    def read(self) -> tf.Tensor:
        """Return the value, which takes nothing from TensorFlow's allocator if it is of a common type."""
        dtype = self.value.dtype
        if dtype.isbuiltin == _NUMPYS_OWN and dtype.kind in _SHARED_KINDS:
            return tf.experimental.dlpack.from_dlpack(self.value.__dlpack__())
        if dtype == tf.bfloat16.as_numpy_dtype:
            words = tf.experimental.dlpack.from_dlpack(self.value.view(np.uint16).__dlpack__())
            with tf.device("CPU:0"):
                return tf.bitcast(words, tf.bfloat16)
        with tf.device("CPU:0"):
            return tf.convert_to_tensor(self.value)


def should_copy(variables: Sequence[Any]) -> bool:
    """Whether variables are large enough that a copy is worth it, and there is room for the copy.

    On a CPU the copy and the highest use so far of TensorFlow's allocator must be within the allocator's limit
    together, as if the allocator held the copy. The copy takes at most half of what the host has left.
    """
    size = _copied_bytes(variables)
    limit = limit_bytes() if device_name() == "CPU:0" else None
    if size < LEAST_BYTES or (limit is not None and peak_bytes_in_use() + size > limit):
        return False
    available = available_bytes()
    return available is not None and size <= available * _HOST_SHARE


def _copied_bytes(variables: Sequence[Any]) -> int:
    return sum(_aligned(piece.bytes) for piece in pieces_of(variables))


def copy_variables(variables: Sequence[Any]) -> list[CopiedPiece] | None:
    """Return the values of variables at this moment; None if the system does not grant the memory.

    The memory is given back to the system as soon as nothing holds the pieces.
    """
    try:
        memory = mmap.mmap(-1, max(_copied_bytes(variables), 1))
    except OSError:
        return None
    with contextlib.suppress(AttributeError, OSError):
        # Fewer pages to set up; not every system has large ones.
        memory.madvise(mmap.MADV_HUGEPAGE)
    copied, used = [], 0
    for piece in pieces_of(variables):
        copied.append(_copy(piece, memory, used))
        used += _aligned(piece.bytes)
    return copied


def _copy(piece: VariablePiece, memory: mmap.mmap, offset: int) -> CopiedPiece:
    found = np.asarray(piece.read())
    if found.dtype.hasobject or found.nbytes != piece.bytes:
        # Texts, and variables whose shapes change: their sizes are not known before.
        return CopiedPiece(piece.name, piece.layout, found.copy())
    value: npt.NDArray[Any] = np.ndarray(found.shape, found.dtype, memory, offset)
    np.copyto(value, found)
    return CopiedPiece(piece.name, piece.layout, value)


def _aligned(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT
