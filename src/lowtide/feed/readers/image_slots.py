"""Decoded images that wait for their batch, in memory of a fixed size."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from lowtide.feed.readers.buffer_pool import BufferPool
from lowtide.feed.readers.samples import Rows

ImageKey = tuple[int, int]
"""The epoch of an image, and its position in it."""


class ImageSlots:
    """A fixed number of slots with room for one image each, from which batches are gathered.

    TensorFlow would keep the images in its own allocator or in the C library's, between the short-lived memory of the
    decoders. The C library keeps what was freed for the thread that decoded it, so that every thread may end up with
    the memory of a whole batch. Here an image leaves TensorFlow's memory as soon as it is decoded.

    An image that is not in its slot any more is decoded again. This happens only if several iterators of a dataset
    share the slots, or after an iterator is restored from a checkpoint.
    """

    def __init__(self, slots: int, shape: Sequence[int], decode: Callable[[ImageKey], Rows]) -> None:
        self._decode = decode
        self._buffers = BufferPool()
        self._images = self._buffers.take((slots, *shape), np.dtype(np.float32))
        self._free = list(range(slots))
        # In the order of arrival: the oldest ones belong to iterators that no longer exist.
        self._slot_of: dict[ImageKey, int] = {}
        self._lock = threading.Lock()
        self.decoded_again = 0

    def put(self, key: ImageKey, image: Rows) -> None:
        """Store an image; without a free slot it replaces the oldest one."""
        with self._lock:
            if not self._free and self._slot_of:
                self._free.append(self._slot_of.pop(next(iter(self._slot_of))))
            if not self._free:
                return
            slot = self._free.pop()
        self._images[slot] = image
        with self._lock:
            replaced = self._slot_of.pop(key, None)
            self._slot_of[key] = slot
            if replaced is not None:
                self._free.append(replaced)

    def take(self, keys: Sequence[ImageKey]) -> Rows:
        """Return a batch of images, whose slots become free."""
        batch = self._buffers.take((len(keys), *self._images.shape[1:]), self._images.dtype)
        for row, key in enumerate(keys):
            with self._lock:
                slot = self._slot_of.pop(key, None)
            if slot is None:
                self.decoded_again += 1
                batch[row] = self._decode(key)
                continue
            batch[row] = self._images[slot]
            with self._lock:
                self._free.append(slot)
        return batch
