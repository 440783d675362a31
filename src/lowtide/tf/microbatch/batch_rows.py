"""The rows of a batch: their number, and the slices that make up a micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend

from lowtide.errors import LowtideError
from lowtide.units import format_count


@dataclass(frozen=True)
class MicroBatch:
    """Consecutive rows of a batch. Numbers are integers if the size of the batch is known, else tensors.

    A batch with fewer rows than micro-batches has empty micro-batches. Some kernels cannot run on zero rows, so an
    empty micro-batch runs on a row of another one, which is not counted.
    """

    batch: Any
    """The rows of the whole batch."""
    start: Any
    rows: Any
    """The rows that it runs on: at least one."""
    counted: Any
    """The rows that count: `rows`, or 0 for an empty micro-batch."""

    @classmethod
    def of(cls, batch: Any, index: int, count: int) -> MicroBatch:
        """Return one of `count` micro-batches; their sizes differ by at most one row."""
        start = batch * index // count
        counted = batch * (index + 1) // count - start
        if isinstance(batch, int):
            return cls(batch, start, counted, counted)
        return cls(batch, tf.minimum(start, batch - 1), tf.maximum(counted, 1), counted)

    @property
    def share(self) -> Any:
        """The share of the batch's rows that are in this micro-batch."""
        return _quotient(self.counted, self.batch)

    @property
    def presence(self) -> Any:
        """1, or 0 for an empty micro-batch."""
        return _quotient(self.counted, self.rows)

    @property
    def scale(self) -> Any:
        """How many times larger the batch is: the factor that turns the weight of a sum into that of a mean."""
        return _quotient(self.batch, self.rows)


def _quotient(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        return one / other
    return tf.cast(one, tf.float32) / tf.cast(other, tf.float32)


def count_rows(x: Any) -> Any:
    """Return the number of rows of a batch: an integer if it is known during tracing, else a tensor."""
    first = next(leaf for leaf in keras.tree.flatten(x) if leaf is not None)
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int32)
    if first.shape[0] is not None:
        return int(first.shape[0])
    size = first.dense_shape[0] if isinstance(first, tf.SparseTensor) else tf.shape(first)[0]
    return tf.cast(size, tf.int32)


def slice_rows(structure: Any, micro_batch: MicroBatch) -> Any:
    """Return the rows of a micro-batch from every tensor in the structure."""
    batch, start, rows = micro_batch.batch, micro_batch.start, micro_batch.rows
    return keras.tree.map_structure(lambda leaf: _slice(leaf, batch, start, rows), structure)


def keep_counted(structure: Any, micro_batch: MicroBatch) -> Any:
    """Drop the rows of a micro-batch's tensors that do not count: all rows of an empty micro-batch."""
    if isinstance(micro_batch.counted, int):
        return structure
    return keras.tree.map_structure(lambda leaf: _first_rows(leaf, micro_batch.counted), structure)


def _first_rows(leaf: Any, rows: Any) -> Any:
    mask = backend.get_keras_mask(leaf) if isinstance(leaf, tf.Tensor) else None
    found = _slice(leaf, None, 0, rows)
    if mask is not None:
        backend.set_keras_mask(found, _slice(mask, None, 0, rows))
    return found


def _slice(leaf: Any, batch: Any, start: Any, rows: Any) -> Any:
    """Return `rows` rows from `start`; a scalar belongs to every row and is returned as it is."""
    if leaf is None:
        return None
    if isinstance(leaf, tf.RaggedTensor):
        return leaf[start : start + rows]
    if isinstance(leaf, tf.SparseTensor):
        rest = leaf.dense_shape[1:]
        begin = tf.concat([tf.cast([start], tf.int64), tf.zeros_like(rest)], axis=0)
        return tf.sparse.slice(leaf, begin, tf.concat([tf.cast([rows], tf.int64), rest], axis=0))
    rank = len(leaf.shape)
    if rank == 0:
        return leaf
    if isinstance(batch, int) and leaf.shape[0] not in (None, batch):
        raise LowtideError(
            "the batch cannot be split: its tensors do not have the same number of rows",
            given=f"{format_count(leaf.shape[0], 'row')} beside {batch}",
            cure="give every input and target the batch as its first axis",
        )
    # TensorFlow adds a surrounding control dependency to an op only if none of its inputs has it. Without this, `begin`
    # and `size` would have it in place of the slice, and lose it when they are folded to constants.
    with tf.control_dependencies(None):
        begin, size = tf.stack([start] + [0] * (rank - 1)), tf.stack([rows] + [-1] * (rank - 1))
    return tf.slice(leaf, begin, size)
