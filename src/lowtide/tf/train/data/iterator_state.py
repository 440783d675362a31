"""The state of an iterator of tf.data as bytes."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import model_pb2


def read_state(iterator: tf.data.Iterator) -> bytes:
    """Return the state of an iterator, without what its functions keep outside of the pipeline."""
    state = tf.raw_ops.SerializeIterator(
        resource_handle=iterator._iterator_resource,
        external_state_policy=tf.data.experimental.ExternalStatePolicy.IGNORE.value,
    )
    return tf.io.serialize_tensor(state).numpy()


def read_small_state(iterator: tf.data.Iterator, most_bytes: int) -> bytes | None:
    """Return the state of an iterator; None if it is larger than `most_bytes` or cannot be saved."""
    if _held_bytes(iterator) > most_bytes:
        return None
    try:
        return read_state(iterator)
    except (tf.errors.UnimplementedError, tf.errors.FailedPreconditionError, tf.errors.ResourceExhaustedError):
        return None


def set_state(iterator: tf.data.Iterator, state: bytes) -> None:
    """Set an iterator to a state that an iterator of the same pipeline had."""
    tf.raw_ops.DeserializeIterator(
        resource_handle=iterator._iterator_resource, serialized=tf.io.parse_tensor(state, tf.variant)
    )


def _held_bytes(iterator: tf.data.Iterator) -> int:
    """The bytes in the buffers of an iterator; 0 if TensorFlow does not count them."""
    try:
        content = tf.raw_ops.IteratorGetModelProto(iterator=iterator._iterator_resource).numpy()
    except tf.errors.NotFoundError:
        return 0
    model = model_pb2.ModelProto()
    model.ParseFromString(content)
    return sum(node.buffered_bytes for node in model.nodes.values())
