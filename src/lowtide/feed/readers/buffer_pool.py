"""Memory for batches: taken from the system in whole pages, and used again once TensorFlow has let go of it."""

from __future__ import annotations

import mmap
import sys
import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

# Smaller ones are the allocator's business.
_SMALLEST = 1 << 18


class Buffers:
    """Arrays whose memory comes back here when nobody uses them any more.

    The C library's allocator would keep what a thread has freed, for that thread: batches that are read by several
    threads then take several times what they are. Memory of its own is neither kept twice nor made anew.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[int, list[mmap.mmap]] = {}

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """An array of a shape, with whatever was in its memory."""
        count = int(np.prod(shape, dtype=np.int64))
        size = count * dtype.itemsize
        if size < _SMALLEST:
            return np.empty(shape, dtype)
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        with self._lock:
            known = self._free.get(pages)
            memory = known.pop() if known else _fetch(pages)
        array = np.frombuffer(memory, dtype, count).reshape(shape)
        # TensorFlow takes the array itself, without a copy: when it is gone, so is the tensor. Views keep it.
        weakref.finalize(array, self._give_back, memory, pages)
        return array

    def _give_back(self, memory: mmap.mmap, pages: int) -> None:
        with self._lock:
            self._free.setdefault(pages, []).append(memory)


def _fetch(size: int) -> mmap.mmap:
    """Memory from the system, which no other process can have a part in."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
