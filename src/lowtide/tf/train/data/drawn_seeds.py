"""How many seeds were drawn, in the state of an iterator of tf.data.

A state is a list of records. Each has its keys as text, and its values in one compressed tensor. TensorFlow can restore
a number of seeds, but to make an iterator that reads or restores it draws seeds itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework.tensor_pb2 import TensorProto, VariantTensorDataProto

_COUNT = "epoch_num_random_samples"
# A stage draws two seeds for an iterator.
_SEEDS_OF_AN_ITERATOR = 2


def without_own_seeds(state: bytes) -> bytes:
    """Return the state of a new iterator as if the iterator itself had drawn no seeds.

    If TensorFlow stores states in another way than known here, the state is returned as it is.
    """
    try:
        return _without_own_seeds(state)
    except (DecodeError, IndexError, ValueError, tf.errors.OpError):
        return state


def _without_own_seeds(state: bytes) -> bytes:
    content = TensorProto.FromString(state)
    records = list(_split(content.tensor_content, content.tensor_shape.dim[0].size))
    for number, record in enumerate(records):
        if _COUNT.encode() in record:
            records[number] = _lower_count(VariantTensorDataProto.FromString(record)).SerializeToString()
    content.tensor_content = b"".join([*(_write_size(len(each)) for each in records), *records])
    lowered: bytes = content.SerializeToString()
    return lowered


def _lower_count(record: VariantTensorDataProto) -> VariantTensorDataProto:
    # The first part is a common prefix.
    keys = record.metadata.decode().split("@@")[1:]
    values = tf.raw_ops.UncompressElement(
        compressed=tf.io.parse_tensor(record.tensors[0].SerializeToString(), tf.variant),
        output_types=[tf.int64] * len(keys),
        output_shapes=[()] * len(keys),
    )
    lowered = [
        value - _SEEDS_OF_AN_ITERATOR if key.endswith(_COUNT) else value
        for key, value in zip(keys, values, strict=True)
    ]
    compressed = tf.raw_ops.CompressElement(components=lowered)
    record.tensors[0].ParseFromString(tf.io.serialize_tensor(compressed).numpy())
    return record


def _split(content: bytes, count: int) -> Iterator[bytes]:
    """Yield the records of a list: their sizes come first, seven bits in a byte."""
    sizes, place = [], 0
    for _ in range(count):
        size = shift = 0
        while content[place] & 128:
            size |= (content[place] & 127) << shift
            place, shift = place + 1, shift + 7
        sizes.append(size | content[place] << shift)
        place += 1
    for size in sizes:
        yield content[place : place + size]
        place += size


def _write_size(size: int) -> bytes:
    written = bytearray()
    while size > 127:
        written.append(size & 127 | 128)
        size >>= 7
    return bytes([*written, size])
