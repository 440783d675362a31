"""The outputs of nodes, from their attributes: how many, the dtype of the first, and the bytes of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from lowtide.atlas.index.arrays import Bytes, Hashes, Indices, Mask
from lowtide.atlas.index.declared_outputs import declared_outputs
from lowtide.atlas.index.text import hash_spans, hash_text, hash_texts
from lowtide.program.dtypes import element_bytes
from lowtide.sources.protobuf.wire import BYTES, VARINT
from lowtide.sources.protobuf.wire_columns import Fields, scan

# Field numbers of a map entry, AttrValue, AttrValue.ListValue, TensorProto and TensorShapeProto.
ENTRY_KEY, ENTRY_VALUE = 1, 2
VALUE_LIST, VALUE_TYPE, VALUE_SHAPE, VALUE_TENSOR, VALUE_FUNCTION = 1, 6, 7, 8, 10
LIST_TYPE, LIST_SHAPE, LIST_FUNCTION = 6, 7, 9
TENSOR_SHAPE = 2
SHAPE_DIMENSION, SHAPE_UNKNOWN_RANK = 2, 3
DIMENSION_SIZE = 1
FUNCTION_NAME = 1

OUTPUT_SHAPES = "_output_shapes"

# Attributes that hold the dtype of an output of an op that is not declared, in order of preference.
_TYPE_KEYS = (
    "DstT", "out_type", "output_type", "Tout", "output_types", "Toutput_types", "dtype", "element_dtype", "type",
    "Tparams", "T", "_dtype",
)  # fmt: skip
_RANK = {hash_text(key): rank for rank, key in enumerate(_TYPE_KEYS)}
_RANKED = np.sort(np.array(list(_RANK), np.uint64))
_RANKS = np.array([_RANK[int(key)] for key in _RANKED], np.int64)
# Before all others.
_DECLARED_RANK = -1
# No name of an attribute has this hash.
_NO_KEY = ~np.uint64(0)
_OUTPUT_SHAPES = np.uint64(hash_text(OUTPUT_SHAPES))
_SHAPE, _VALUE = np.uint64(hash_text("shape")), np.uint64(hash_text("value"))

# Ops whose shape attribute describes the variable, not the handle that they return.
_HANDLES = ("VarHandleOp",)

# One more than the largest dtype number.
_DTYPES = 256
_ELEMENT = np.array([element_bytes(number % 100) if number % 100 else 0 for number in range(_DTYPES)], np.int64)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of the nodes of a batch, concatenated, and the functions that the nodes call."""

    count: Indices
    """The number of known outputs of each node."""
    dtype: npt.NDArray[np.uint8]
    """The dtype of each node's first output; 0 where it is unknown."""
    bytes: Indices
    """The size of each output; 0 where it is unknown."""
    is_sized: Mask
    """Whether the size of each output is known."""
    calls: tuple[Indices, Indices, Indices]
    """For each call, the calling node, and the span of the function name in the file."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a batch: the node, the hash of the name, and the fields of the value."""

    owner: Indices
    key: Hashes
    value: Fields
    """`owner` is the index of the attribute."""


def read_outputs(data: Bytes, count: int, attributes: Fields, op: Hashes) -> Outputs:
    """Parse the attributes of `count` nodes; `op` is the hash of each node's op."""
    read = read_attributes(data, attributes)
    owner, key, value = read.owner[read.value.owner], read.key[read.value.owner], read.value
    dtype = _dtypes(data, owner, key, value, op)
    shapes = read_shapes(data, count, owner, key, value, op)
    elements, known = _count_elements(data, shapes)
    owners = shapes.owner
    size = elements * _ELEMENT[dtype[owners]]
    return Outputs(
        np.bincount(owners, minlength=count),
        dtype,
        np.where(known, size, 0),
        known & (dtype[owners] > 0),
        _calls(data, owner, value, key != _OUTPUT_SHAPES),
    )


def read_attributes(data: Bytes, attributes: Fields) -> Attributes:
    """Split the entries of attribute maps into keys and values."""
    entries = scan(data, attributes.start, attributes.end)
    keys, values = entries.of(ENTRY_KEY), entries.of(ENTRY_VALUE)
    key = np.zeros(len(attributes), np.uint64)
    key[keys.owner] = hash_spans(data, keys.start, keys.end)
    inner = scan(data, values.start, values.end)
    of = values.owner[inner.owner]
    value = Fields(of, inner.number, inner.kind, inner.start, inner.end, inner.broken)
    return Attributes(attributes.owner, key, value)


def _dtypes(
    data: Bytes,
    owner: Indices,
    key: Hashes,
    value: Fields,
    op: Hashes,
) -> npt.NDArray[np.uint8]:
    """Return the dtype of each node's first output: as its op is declared, else by the names of its attributes."""
    declared = _first_outputs().of(op)
    is_declared = key == declared.key[owner]
    # An attribute that equals its default may be missing.
    dtype = declared.default.copy()
    dtype[owner[is_declared]] = 0
    place = np.minimum(np.searchsorted(_RANKED, key), len(_RANKED) - 1)
    is_matching = is_declared | ((_RANKED[place] == key) & (declared.default[owner] == 0))
    ranks_of_keys = np.where(is_declared, _DECLARED_RANK, _RANKS[place])
    single = is_matching & (value.number == VALUE_TYPE) & (value.kind == VARINT)
    lists = np.flatnonzero(is_matching & (value.number == VALUE_LIST) & (value.kind == BYTES))
    owners, ranks, types = [owner[single]], [ranks_of_keys[single]], [value.start[single]]
    within = scan(data, value.start[lists], value.end[lists])
    # In a packed list of dtypes the first byte is the first dtype; in an unpacked one each dtype is a varint field.
    packed, plain = within.of(LIST_TYPE), within.of(LIST_TYPE, VARINT)
    packed = packed.where(packed.start < packed.end)
    for found, first in ((packed, data[packed.start].astype(np.int64)), (plain, plain.start)):
        owners.append(owner[lists[found.owner]])
        ranks.append(ranks_of_keys[lists[found.owner]])
        types.append(first)
    node, rank, which = np.concatenate(owners), np.concatenate(ranks), np.concatenate(types)
    # Assigned in reverse, the preferred attribute and the first element of a list remain.
    order = np.argsort(-rank[::-1], kind="stable")
    dtype[node[::-1][order]] = np.clip(which[::-1][order], 0, _DTYPES - 1)
    return dtype


@dataclass(frozen=True, slots=True)
class _FirstOutputs:
    """How the first output of each op is declared."""

    op: Hashes
    """In ascending order."""
    key: Hashes
    """The name of the attribute that holds the dtype; one that no node has where the dtype is fixed."""
    default: npt.NDArray[np.uint8]
    """The dtype without that attribute; 0 where there is none."""

    def of(self, op: Hashes) -> _FirstOutputs:
        """Return the first output of each of these ops; an op that is not declared has no default."""
        place = np.minimum(np.searchsorted(self.op, op), len(self.op) - 1)
        is_known = self.op[place] == op
        key, default = np.where(is_known, self.key[place], _NO_KEY), np.where(is_known, self.default[place], 0)
        return _FirstOutputs(op, key, default)


@cache
def _first_outputs() -> _FirstOutputs:
    declared = declared_outputs()
    op = hash_texts([name.encode() for name in declared])
    key = hash_texts([first.type.encode() for first, *_ in declared.values()])
    default = np.array([first.default for first, *_ in declared.values()], np.uint8)
    order = np.argsort(op)
    return _FirstOutputs(op[order], key[order], default[order])


@dataclass(frozen=True, slots=True)
class ShapeSpans:
    """Spans of serialized shapes, one for each known output, and the node of each; nodes are in ascending order."""

    owner: Indices
    start: Indices
    end: Indices


def read_shapes(data: Bytes, count: int, owner: Indices, key: Hashes, value: Fields, op: Hashes) -> ShapeSpans:
    """Find the shapes of the outputs of `count` nodes: in `_output_shapes`, else in the op's own `shape` or `value`."""
    lists = np.flatnonzero((key == _OUTPUT_SHAPES) & (value.number == VALUE_LIST) & (value.kind == BYTES))
    listed = scan(data, value.start[lists], value.end[lists]).of(LIST_SHAPE)
    is_handle = np.isin(op, np.array([hash_text(name) for name in _HANDLES], np.uint64))
    single = (key == _SHAPE) & (value.number == VALUE_SHAPE) & (value.kind == BYTES) & ~is_handle[owner]
    tensors = np.flatnonzero((key == _VALUE) & (value.number == VALUE_TENSOR) & (value.kind == BYTES))
    inside = scan(data, value.start[tensors], value.end[tensors]).of(TENSOR_SHAPE)
    owners = np.concatenate([owner[lists[listed.owner]], owner[single], owner[tensors[inside.owner]]])
    starts = np.concatenate([listed.start, value.start[single], inside.start])
    ends = np.concatenate([listed.end, value.end[single], inside.end])
    has_list = np.zeros(count, np.bool_)
    has_list[owners[: len(listed)]] = True
    is_listed = np.arange(len(owners)) < len(listed)
    chosen = np.flatnonzero(is_listed | ~has_list[owners])
    chosen = chosen[np.argsort(owners[chosen], kind="stable")]
    return ShapeSpans(owners[chosen], starts[chosen], ends[chosen])


def _count_elements(data: Bytes, shapes: ShapeSpans) -> tuple[Indices, Mask]:
    """Return the number of elements of each shape, and whether it is known."""
    fields = scan(data, shapes.start, shapes.end)
    elements = np.ones(len(shapes.start), np.float64)
    is_known = np.ones(len(shapes.start), np.bool_)
    is_known[fields.of(SHAPE_UNKNOWN_RANK, VARINT).owner] = False
    dimensions = fields.of(SHAPE_DIMENSION)
    inner = scan(data, dimensions.start, dimensions.end).of(DIMENSION_SIZE, VARINT)
    size = np.zeros(len(dimensions), np.int64)
    size[inner.owner] = inner.start
    # An unknown dimension is -1; a dimension of 0 may be omitted.
    is_known[dimensions.owner[size < 0]] = False
    np.multiply.at(elements, dimensions.owner, np.maximum(size, 0))
    # A larger size means that the file is damaged.
    is_known &= elements < 2.0**56
    return np.where(is_known, elements, 0).astype(np.int64), is_known


def _calls(data: Bytes, owner: Indices, value: Fields, may_name: Mask) -> tuple[Indices, Indices, Indices]:
    single = np.flatnonzero((value.number == VALUE_FUNCTION) & (value.kind == BYTES))
    lists = np.flatnonzero(may_name & (value.number == VALUE_LIST) & (value.kind == BYTES))
    listed = scan(data, value.start[lists], value.end[lists]).of(LIST_FUNCTION)
    caller = np.concatenate([owner[single], owner[lists[listed.owner]]])
    starts = np.concatenate([value.start[single], listed.start])
    ends = np.concatenate([value.end[single], listed.end])
    names = scan(data, starts, ends).of(FUNCTION_NAME)
    return caller[names.owner], names.start, names.end
