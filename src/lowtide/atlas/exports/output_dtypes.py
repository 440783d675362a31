"""The dtype of any output of a node, from its attributes and a table of ops."""

from __future__ import annotations

import re

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Bytes
from lowtide.atlas.index.node_spans import NODE_ATTRIBUTE
from lowtide.atlas.index.outputs import LIST_TYPE, VALUE_LIST, VALUE_TYPE, read_attributes
from lowtide.atlas.index.text import hash_text
from lowtide.program.dtypes import RESOURCE, STRING, VARIANT
from lowtide.sources.protobuf.wire import BYTES, VARINT
from lowtide.sources.protobuf.wire_columns import Fields, scan

_FLOAT, _INT32, _INT64, _BOOL, _UINT64 = 1, 3, 9, 10, 23

# Outputs with a fixed dtype, whatever the attributes say; by op and port.
_FIXED = {
    ("Where", 0): _INT64,
    ("Rank", 0): _INT32,
    ("Bucketize", 0): _INT32,
    ("AsString", 0): STRING,
    ("StringJoin", 0): STRING,
    ("StringFormat", 0): STRING,
    ("VarIsInitializedOp", 0): _BOOL,
    ("IsVariableInitialized", 0): _BOOL,
    ("StatelessRandomGetKeyCounter", 0): _UINT64,
    ("StatelessRandomGetKeyCounter", 1): _UINT64,
    ("StatelessRandomGetAlg", 0): _INT32,
    ("Merge", 1): _INT32,
    ("TopK", 1): _INT32,
    ("TopKV2", 1): _INT32,
    ("TensorArrayV3", 0): RESOURCE,
    ("TensorArrayV3", 1): _FLOAT,
    ("TensorListLength", 0): _INT32,
    ("TensorListPopBack", 0): VARIANT,
    ("IteratorGetNextAsOptional", 0): VARIANT,
}
# The attribute that holds the dtype of the outputs after the first.
_NAMED = {
    "FusedBatchNormV2": "U",
    "FusedBatchNormV3": "U",
    "FusedBatchNormGradV2": "U",
    "FusedBatchNormGradV3": "U",
    "Unique": "out_idx",
    "UniqueV2": "out_idx",
    "UniqueWithCounts": "out_idx",
    "MaxPoolWithArgmax": "Targmax",
    "TensorListPopBack": "element_dtype",
}
_VARIANTS = re.compile(r".*Dataset(V\d)?|(Empty)?TensorList(?!GetItem|Stack|Gather|Concat|ElementShape|Pop|Length).*")
_RESOURCES = re.compile(r".*(HashTable|Queue|Stack|Barrier)V\d|.*Iterator(V\d)?|Anonymous.*|.*HandleOp")
_REFERENCES = re.compile(
    r"Variable(V2)?|TemporaryVariable|Assign(Add|Sub)?|Ref(Identity|Switch|Merge|Enter|Exit|NextIteration|Select)"
    r"|Scatter(Update|Add|Sub|Mul|Div|Min|Max|NdUpdate|NdAdd|NdSub)|(Sparse)?Apply[A-Z].*"
)
# Attributes that list the dtype of each output.
_LISTS = tuple(
    np.uint64(hash_text(key)) for key in ("Tout", "output_types", "Toutput_types", "component_types", "dtypes", "T")
)


def output_dtype(atlas: Atlas, data: Bytes, node: int, port: int) -> int:
    """Return TensorFlow's number for the dtype of an output; 0 where it is unknown."""
    op, first = atlas.op_of(node), int(atlas.dtype[node])
    if (op, port) in _FIXED:
        return _FIXED[op, port]
    if _VARIANTS.fullmatch(op):
        return VARIANT
    if _RESOURCES.fullmatch(op):
        return RESOURCE
    if port == 0:
        return first
    attributes = _attributes(atlas, data, node)
    named = np.uint64(hash_text(_NAMED[op])) if op in _NAMED else None
    for key, number, kind, start, end in attributes:
        if key == named and number == VALUE_TYPE and kind == VARINT:
            return start
        if key in _LISTS and number == VALUE_LIST and kind == BYTES:
            types = _types(data, start, end)
            if port < len(types):
                return types[port]
    return first


def gives_references(op: str, port: int) -> bool:
    """Return whether an output is a TensorFlow 1 reference to a variable, which a placeholder cannot replace."""
    return port == 0 and _REFERENCES.fullmatch(op) is not None


def _attributes(atlas: Atlas, data: Bytes, node: int) -> list[tuple[np.uint64, int, int, int, int]]:
    start, end = atlas.bytes_in_file(node)
    fields = scan(data, np.array([start]), np.array([end])).of(NODE_ATTRIBUTE)
    read = read_attributes(data, fields)
    value: Fields = read.value
    columns = (value.number.tolist(), value.kind.tolist(), value.start.tolist(), value.end.tolist())
    return list(zip(read.key[value.owner], *columns, strict=True))


def _types(data: Bytes, start: int, end: int) -> list[int]:
    """Read a list of dtypes, packed as numbers below 128 or as one field each."""
    fields = scan(data, np.array([start]), np.array([end]))
    packed = fields.of(LIST_TYPE)
    types = [int(byte) for low, high in zip(packed.start, packed.end, strict=True) for byte in data[low:high]]
    return types or fields.of(LIST_TYPE, VARINT).start.tolist()
