"""What nodes give: how many outputs, of which dtype, and how many bytes each has, from their attributes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowtide.atlas.index.text import Bytes, Indices, hash_spans, hash_text
from lowtide.program.dtypes import element_bytes
from lowtide.sources.protobuf.wire import BYTES, VARINT
from lowtide.sources.protobuf.wire_columns import Fields, scan

# A map's entry, AttrValue, its lists, TensorProto and TensorShapeProto, by field number.
ENTRY_KEY, ENTRY_VALUE = 1, 2
VALUE_LIST, VALUE_TYPE, VALUE_SHAPE, VALUE_TENSOR, VALUE_FUNCTION = 1, 6, 7, 8, 10
LIST_TYPE, LIST_SHAPE, LIST_FUNCTION = 6, 7, 9
TENSOR_TYPE, TENSOR_SHAPE = 1, 2
SHAPE_DIMENSION, SHAPE_UNKNOWN_RANK = 2, 3
DIMENSION_SIZE = 1
FUNCTION_NAME = 1

OUTPUT_SHAPES = "_output_shapes"

# Which attribute says what a node gives, the most telling first: a cast has a type for its input too.
_TYPE_KEYS = (
    "DstT", "out_type", "output_type", "Tout", "output_types", "Toutput_types", "dtype", "element_dtype", "type",
    "Tparams", "T", "_dtype",
)  # fmt: skip
_RANK = {hash_text(key): rank for rank, key in enumerate(_TYPE_KEYS)}
_RANKED = np.sort(np.array(list(_RANK), np.uint64))
_RANKS = np.array([_RANK[int(key)] for key in _RANKED], np.int64)
_OUTPUT_SHAPES = np.uint64(hash_text(OUTPUT_SHAPES))
_SHAPE, _VALUE = np.uint64(hash_text("shape")), np.uint64(hash_text("value"))

BOOL, RESOURCE = 10, 20
# Whatever they are given, they answer yes or no.
_COMPARISONS = (
    "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "LogicalNot",
    "IsFinite", "IsNan", "IsInf", "All", "Any", "ApproximateEqual",
)  # fmt: skip
# Their shape is that of what lies behind the handle, not of the handle.
_HANDLES = ("VarHandleOp",)
_GIVES = {np.uint64(hash_text(op)): BOOL for op in _COMPARISONS} | {
    np.uint64(hash_text(op)): RESOURCE for op in _HANDLES
}

# Larger than any dtype's number.
_DTYPES = 256
_ELEMENT = np.array([element_bytes(number % 100) if number % 100 else 0 for number in range(_DTYPES)], np.int64)


@dataclass(frozen=True, slots=True)
class Outputs:
    """Of a batch: the outputs of its nodes, one after the other, and the functions that they name."""

    count: Indices
    """How many outputs each node is known to have."""
    dtype: npt.NDArray[np.uint8]
    """Of each node's first output; 0 where nothing tells."""
    bytes: Indices
    """Of each output; 0 where its size is not known."""
    is_sized: npt.NDArray[np.bool_]
    """Of each output, whether its size is known."""
    calls: tuple[Indices, Indices, Indices]
    """Who names a function, and where in the file that name begins and ends."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Every attribute of a batch: whose it is, the hash of its name, and the one field of its value."""

    owner: Indices
    key: npt.NDArray[np.uint64]
    value: Fields
    """Its `owner` is the attribute."""


def read_outputs(data: Bytes, count: int, attributes: Fields, op: npt.NDArray[np.uint64]) -> Outputs:
    """Read what the attributes of `count` nodes say; `op` is the hash of each node's op."""
    read = read_attributes(data, attributes)
    owner, key, value = read.owner[read.value.owner], read.key[read.value.owner], read.value
    dtype = _dtypes(data, count, owner, key, value, op)
    shapes = read_shapes(data, owner, key, value, op)
    sizes = _Sizes.of(data, shapes)
    # A node's shapes come from one attribute: the list of all outputs where it is there.
    has_list = np.zeros(count, np.bool_)
    listed = shapes.is_list
    has_list[shapes.owner[listed]] = True
    chosen = listed | ~has_list[shapes.owner]
    owners = shapes.owner[chosen]
    order = np.argsort(owners, kind="stable")
    owners = owners[order]
    elements, known = sizes.elements[chosen][order], sizes.is_known[chosen][order]
    size = elements * _ELEMENT[dtype[owners]]
    return Outputs(
        np.bincount(owners, minlength=count),
        dtype,
        np.where(known, size, 0),
        known & (dtype[owners] > 0),
        _calls(data, owner, value, key != _OUTPUT_SHAPES),
    )


def read_attributes(data: Bytes, attributes: Fields) -> Attributes:
    """Take the entries of attribute maps apart."""
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
    count: int,
    owner: Indices,
    key: npt.NDArray[np.uint64],
    value: Fields,
    op: npt.NDArray[np.uint64],
) -> npt.NDArray[np.uint8]:
    """The dtype of each node's first output."""
    place = np.minimum(np.searchsorted(_RANKED, key), len(_RANKED) - 1)
    telling = _RANKED[place] == key
    single = telling & (value.number == VALUE_TYPE) & (value.kind == VARINT)
    lists = np.flatnonzero(telling & (value.number == VALUE_LIST) & (value.kind == BYTES))
    owners, ranks, types = [owner[single]], [_RANKS[place[single]]], [value.start[single]]
    within = scan(data, value.start[lists], value.end[lists])
    # Lists of types are packed: the first byte is the first type. Unpacked ones are numbers.
    packed, plain = within.of(LIST_TYPE), within.of(LIST_TYPE, VARINT)
    packed = packed.where(packed.start < packed.end)
    for found, first in ((packed, data[packed.start].astype(np.int64)), (plain, plain.start)):
        owners.append(owner[lists[found.owner]])
        ranks.append(_RANKS[place[lists[found.owner]]])
        types.append(first)
    who, rank, which = np.concatenate(owners), np.concatenate(ranks), np.concatenate(types)
    dtype = np.zeros(count, np.uint8)
    # The best rank is written last, and of a list its first.
    order = np.argsort(-rank[::-1], kind="stable")
    dtype[who[::-1][order]] = np.clip(which[::-1][order], 0, _DTYPES - 1)
    for known, gives in _GIVES.items():
        dtype[op == known] = gives
    return dtype


@dataclass(frozen=True, slots=True)
class ShapeSpans:
    """ShapeSpans of outputs: whose, where they lie, and whether they come from the list of all outputs."""

    owner: Indices
    start: Indices
    end: Indices
    is_list: npt.NDArray[np.bool_]


def read_shapes(
    data: Bytes, owner: Indices, key: npt.NDArray[np.uint64], value: Fields, op: npt.NDArray[np.uint64]
) -> ShapeSpans:
    """Where the shapes of outputs lie: in the list of all of them, or in what the op itself says of the first."""
    lists = np.flatnonzero((key == _OUTPUT_SHAPES) & (value.number == VALUE_LIST) & (value.kind == BYTES))
    listed = scan(data, value.start[lists], value.end[lists]).of(LIST_SHAPE)
    is_handle = np.isin(op, np.array([hash_text(name) for name in _HANDLES], np.uint64))
    single = (key == _SHAPE) & (value.number == VALUE_SHAPE) & (value.kind == BYTES) & ~is_handle[owner]
    tensors = np.flatnonzero((key == _VALUE) & (value.number == VALUE_TENSOR) & (value.kind == BYTES))
    inside = scan(data, value.start[tensors], value.end[tensors]).of(TENSOR_SHAPE)
    return ShapeSpans(
        np.concatenate([owner[lists[listed.owner]], owner[single], owner[tensors[inside.owner]]]),
        np.concatenate([listed.start, value.start[single], inside.start]),
        np.concatenate([listed.end, value.end[single], inside.end]),
        np.concatenate([np.ones(len(listed), np.bool_), np.zeros(np.count_nonzero(single) + len(inside), np.bool_)]),
    )


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The number of elements of shapes, where it is known."""

    elements: Indices
    is_known: npt.NDArray[np.bool_]

    @staticmethod
    def of(data: Bytes, shapes: ShapeSpans) -> _Sizes:
        fields = scan(data, shapes.start, shapes.end)
        elements = np.ones(len(shapes.start), np.float64)
        is_known = np.ones(len(shapes.start), np.bool_)
        is_known[fields.of(SHAPE_UNKNOWN_RANK, VARINT).owner] = False
        dimensions = fields.of(SHAPE_DIMENSION)
        inner = scan(data, dimensions.start, dimensions.end).of(DIMENSION_SIZE, VARINT)
        size = np.zeros(len(dimensions), np.int64)
        size[inner.owner] = inner.start
        # An open dimension is written as -1, and one of 0 may be left out.
        is_known[dimensions.owner[size < 0]] = False
        np.multiply.at(elements, dimensions.owner, np.maximum(size, 0))
        # What no machine could hold is a damaged file.
        is_known &= elements < 2.0**56
        return _Sizes(np.where(is_known, elements, 0).astype(np.int64), is_known)


def _calls(
    data: Bytes, owner: Indices, value: Fields, may_name: npt.NDArray[np.bool_]
) -> tuple[Indices, Indices, Indices]:
    single = np.flatnonzero((value.number == VALUE_FUNCTION) & (value.kind == BYTES))
    lists = np.flatnonzero(may_name & (value.number == VALUE_LIST) & (value.kind == BYTES))
    listed = scan(data, value.start[lists], value.end[lists]).of(LIST_FUNCTION)
    who = np.concatenate([owner[single], owner[lists[listed.owner]]])
    starts = np.concatenate([value.start[single], listed.start])
    ends = np.concatenate([value.end[single], listed.end])
    names = scan(data, starts, ends).of(FUNCTION_NAME)
    return who[names.owner], names.start, names.end
