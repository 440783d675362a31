"""The rows of a batch: how many there are, and some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend

from lowtide.errors import LowtideError


@dataclass(frozen=True)
class Piece:
    """Some rows of a batch that follow each other. Numbers are integers where the batch's size is known, else tensors.

    A batch with fewer rows than pieces has empty pieces. Not every kernel can run on nothing, so such a piece runs on a
    row that belongs to another one, and none of its rows count.
    """

    batch: Any
    start: Any
    rows: Any
    """The rows it runs on: one at least."""
    counted: Any
    """The rows that are its own."""

    @classmethod
    def of(cls, batch: Any, index: int, pieces: int) -> Piece:
        """The piece of this index, where sizes differ by one row at most."""
        start = batch * index // pieces
        counted = batch * (index + 1) // pieces - start
        if isinstance(batch, int):
            return cls(batch, start, counted, counted)
        return cls(batch, tf.minimum(start, batch - 1), tf.maximum(counted, 1), counted)

    @property
    def share(self) -> Any:
        """The part of the batch's rows that are in this piece."""
        return _quotient(self.counted, self.batch)

    @property
    def presence(self) -> Any:
        """1, or 0 for an empty piece."""
        return _quotient(self.counted, self.rows)

    @property
    def scale(self) -> Any:
        """How many times larger the batch is: what makes a sum over the piece weigh in like a mean."""
        return _quotient(self.batch, self.rows)


def _quotient(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        return one / other
    return tf.cast(one, tf.float32) / tf.cast(other, tf.float32)


def rows_of(x: Any) -> Any:
    """How many rows the batch has: an integer where the trace knows, else a tensor."""
    first = next(leaf for leaf in keras.tree.flatten(x) if leaf is not None)
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int32)
    if first.shape[0] is not None:
        return int(first.shape[0])
    size = first.dense_shape[0] if isinstance(first, tf.SparseTensor) else tf.shape(first)[0]
    return tf.cast(size, tf.int32)


def cut(structure: Any, piece: Piece) -> Any:
    """The rows of the piece, of every tensor in the structure."""
    return keras.tree.map_structure(lambda leaf: _slice(leaf, piece.batch, piece.start, piece.rows), structure)


def first_rows(structure: Any, piece: Piece) -> Any:
    """The rows of a piece's tensors that count: all but for an empty piece."""
    if isinstance(piece.counted, int):
        return structure
    return keras.tree.map_structure(lambda leaf: _counted(leaf, piece), structure)


def _counted(leaf: Any, piece: Piece) -> Any:
    mask = backend.get_keras_mask(leaf) if isinstance(leaf, tf.Tensor) else None
    found = _slice(leaf, None, 0, piece.counted)
    if mask is not None:
        backend.set_keras_mask(found, _slice(mask, None, 0, piece.counted))
    return found


def _slice(leaf: Any, batch: Any, start: Any, rows: Any) -> Any:
    """`rows` rows from `start`. What has no first axis belongs to every row."""
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
            given=f"{leaf.shape[0]} rows beside {batch}",
            cure="give every input and target the batch as its first axis",
        )
    # An op waits for what its surroundings wait for only if none of its inputs does, and a constant soon will not.
    with tf.control_dependencies(None):
        begin, size = tf.stack([start] + [0] * (rank - 1)), tf.stack([rows] + [-1] * (rank - 1))
    return tf.slice(leaf, begin, size)
