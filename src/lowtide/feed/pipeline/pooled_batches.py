"""Batches of TensorFlow's ops, moved to memory that does not stay with the thread that made them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from lowtide.feed.pipeline.feed import Feed
from lowtide.feed.readers.buffer_pool import BufferPool


def move_to_pool(feed: Feed, buffers: BufferPool, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Copy the numbers of a batch to memory of the pool; texts stay where they are."""
    numbers = [tensor for tensor in tensors if isinstance(tensor, tf.Tensor) and tensor.dtype != tf.string]
    if not numbers:
        return list(tensors)

    def copy(*arrays: np.ndarray) -> list[np.ndarray]:
        copies = [buffers.take(array.shape, array.dtype) for array in arrays]
        for target, array in zip(copies, arrays, strict=True):
            target[...] = array
        return copies

    copies = iter(feed.call_python(copy, numbers, [tensor.dtype for tensor in numbers]))
    moved = []
    for tensor in tensors:
        is_moved = any(tensor is each for each in numbers)
        moved.append(tf.ensure_shape(next(copies), tensor.shape) if is_moved else tensor)
    return moved
