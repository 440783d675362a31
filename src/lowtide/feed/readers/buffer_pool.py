"""Memory for batches: taken from the system in whole pages, and reused once TensorFlow has released it."""

from __future__ import annotations

import mmap
import sys
import threading
import weakref
from typing import Any

import numpy as np

from lowtide.feed.readers.samples import Rows

# Smaller arrays come from NumPy's allocator.
_SMALLEST_BYTES = 1 << 18


class BufferPool:
    """Arrays whose memory returns to the pool when they are garbage-collected.

    The C library's allocator keeps memory per thread, so batches that several threads read would take several times
    their size. Memory mapped for the pool is neither kept per thread nor zeroed again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[int, list[mmap.mmap]] = {}

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Rows:
        """Return an uninitialized array."""
        count = int(np.prod(shape, dtype=np.int64))
        size = count * dtype.itemsize
        # Python objects cannot be stored in mapped memory.
        if size < _SMALLEST_BYTES or dtype.hasobject:
            return np.empty(shape, dtype)
        page_bytes = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        with self._lock:
            free = self._free.get(page_bytes)
            if not free:
                # Memory of other sizes would otherwise be kept beside it, such as that of the last batch of an epoch.
                self._free.clear()
            memory = free.pop() if free else _map_private(page_bytes)
        array = np.frombuffer(memory, dtype, count).reshape(shape)
        # TensorFlow uses the array itself, without a copy: the array lives as long as the tensor and its views.
        weakref.finalize(array, self._release, memory, page_bytes)
        return array

    def _release(self, memory: mmap.mmap, page_bytes: int) -> None:
        with self._lock:
            self._free.setdefault(page_bytes, []).append(memory)


def _map_private(size: int) -> mmap.mmap:
    """Map anonymous memory that is not shared with forked processes."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
