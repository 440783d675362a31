"""Tensors that TensorFlow is still making: Python refers to them already, and an access to one ends the process.

While a value is converted, which may run Python code such as an object's `__array__`, its tensor has no handle yet.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

from tensorflow.python.framework.ops import EagerTensor

# The function of TensorFlow in which a tensor is made from a value.
_MAKING = "convert_to_eager_tensor"
_WORD = ctypes.sizeof(ctypes.c_void_p)
_HEAD_BYTES = object.__basicsize__
# How many tensors are inspected to find where a tensor stores its number.
_SAMPLED = 8


def without_half_made(tensors: Sequence[Any]) -> list[Any]:
    """Return the tensors that have a handle, which TensorFlow stores before the number of a tensor."""
    if not _is_making():
        return list(tensors)
    offsets = range(_HEAD_BYTES + _WORD, EagerTensor.__basicsize__, _WORD)
    sample = tensors[-_SAMPLED:]
    numbers = [offset for offset in offsets if all(_word(each, offset) == each._id for each in sample)]
    return [each for each in tensors if all(_word(each, offset - _WORD) for offset in numbers)]


def _is_making() -> bool:
    """Whether any thread is making a tensor from a value."""
    frames = list(sys._current_frames().values())
    try:
        while frames:
            frame = frames.pop()
            if frame.f_code.co_name == _MAKING:
                return True
            if frame.f_back is not None:
                frames.append(frame.f_back)
        return False
    finally:
        # The frame of this function is among them: a cycle would keep the callers' variables, and with them tensors.
        frames.clear()
        frame = None  # type: ignore[assignment]


def _word(tensor: Any, offset: int) -> int:
    return ctypes.c_size_t.from_address(id(tensor) + offset).value
