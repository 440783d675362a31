"""The fields of a GraphDef and of what it lies in, by the names they have in text form.

Numbers and kinds are those of TensorFlow's `.proto` files; they are part of its file format and never change.
What is not listed is passed over.
"""

from __future__ import annotations

from typing import NamedTuple

INTEGER, FLOAT, DOUBLE, BOOLEAN, DTYPE, BYTES = "integer", "float", "double", "boolean", "dtype", "bytes"


class Field(NamedTuple):
    """One field: its number, and its kind or the name of its message."""

    number: int
    kind: str
    is_packed: bool = False
    """Whether it is a list of numbers, which are written together."""


Schema = dict[str, Field]


def _many(number: int, kind: str) -> Field:
    return Field(number, kind, is_packed=True)


def _entry(value: str, key: str = BYTES) -> Schema:
    """An entry of a map."""
    return {"key": Field(1, key), "value": Field(2, value)}


SCHEMAS: dict[str, Schema] = {
    "GraphDef": {
        "node": Field(1, "NodeDef"),
        "library": Field(2, "FunctionDefLibrary"),
        "version": Field(3, INTEGER),
        "versions": Field(4, "VersionDef"),
    },
    "NodeDef": {
        "name": Field(1, BYTES),
        "op": Field(2, BYTES),
        "input": Field(3, BYTES),
        "device": Field(4, BYTES),
        "attr": Field(5, "AttrEntry"),
        "experimental_debug_info": Field(6, "DebugInfo"),
    },
    "DebugInfo": {"original_node_names": Field(1, BYTES), "original_func_names": Field(2, BYTES)},
    "AttrEntry": _entry("AttrValue"),
    "AttrValue": {
        "list": Field(1, "ListValue"),
        "s": Field(2, BYTES),
        "i": Field(3, INTEGER),
        "f": Field(4, FLOAT),
        "b": Field(5, BOOLEAN),
        "type": Field(6, DTYPE),
        "shape": Field(7, "TensorShapeProto"),
        "tensor": Field(8, "TensorProto"),
        "placeholder": Field(9, BYTES),
        "func": Field(10, "NameAttrList"),
    },
    "ListValue": {
        "s": Field(2, BYTES),
        "i": _many(3, INTEGER),
        "f": _many(4, FLOAT),
        "b": _many(5, BOOLEAN),
        "type": _many(6, DTYPE),
        "shape": Field(7, "TensorShapeProto"),
        "tensor": Field(8, "TensorProto"),
        "func": Field(9, "NameAttrList"),
    },
    "NameAttrList": {"name": Field(1, BYTES), "attr": Field(2, "AttrEntry")},
    "TensorShapeProto": {"dim": Field(2, "Dim"), "unknown_rank": Field(3, BOOLEAN)},
    "Dim": {"size": Field(1, INTEGER), "name": Field(2, BYTES)},
    "TensorProto": {
        "dtype": Field(1, DTYPE),
        "tensor_shape": Field(2, "TensorShapeProto"),
        "version_number": Field(3, INTEGER),
        "tensor_content": Field(4, BYTES),
        "float_val": _many(5, FLOAT),
        "double_val": _many(6, DOUBLE),
        "int_val": _many(7, INTEGER),
        "string_val": Field(8, BYTES),
        "scomplex_val": _many(9, FLOAT),
        "int64_val": _many(10, INTEGER),
        "bool_val": _many(11, BOOLEAN),
        "dcomplex_val": _many(12, DOUBLE),
        "half_val": _many(13, INTEGER),
        "uint32_val": _many(16, INTEGER),
        "uint64_val": _many(17, INTEGER),
        "float8_val": Field(18, BYTES),
    },
    "FunctionDefLibrary": {
        "function": Field(1, "FunctionDef"),
        "gradient": Field(2, "GradientDef"),
        "registered_gradients": Field(3, "RegisteredGradient"),
    },
    "FunctionDef": {
        "signature": Field(1, "OpDef"),
        "node_def": Field(3, "NodeDef"),
        "ret": Field(4, "TextEntry"),
        "attr": Field(5, "AttrEntry"),
        "control_ret": Field(6, "TextEntry"),
        "arg_attr": Field(7, "ArgAttrEntry"),
        "resource_arg_unique_id": Field(8, "NumberEntry"),
    },
    "TextEntry": _entry(BYTES),
    "NumberEntry": _entry(INTEGER, key=INTEGER),
    "ArgAttrEntry": _entry("ArgAttrs", key=INTEGER),
    "ArgAttrs": {"attr": Field(1, "AttrEntry")},
    "GradientDef": {"function_name": Field(1, BYTES), "gradient_func": Field(2, BYTES)},
    "RegisteredGradient": {"gradient_func": Field(1, BYTES), "registered_op_type": Field(2, BYTES)},
    "OpDef": {
        "name": Field(1, BYTES),
        "input_arg": Field(2, "ArgDef"),
        "output_arg": Field(3, "ArgDef"),
        "attr": Field(4, "AttrDef"),
        "summary": Field(5, BYTES),
        "description": Field(6, BYTES),
        "is_aggregate": Field(16, BOOLEAN),
        "is_stateful": Field(17, BOOLEAN),
        "is_commutative": Field(18, BOOLEAN),
        "allows_uninitialized_input": Field(19, BOOLEAN),
        "control_output": Field(20, BYTES),
        "is_distributed_communication": Field(21, BOOLEAN),
    },
    "ArgDef": {
        "name": Field(1, BYTES),
        "description": Field(2, BYTES),
        "type": Field(3, DTYPE),
        "type_attr": Field(4, BYTES),
        "number_attr": Field(5, BYTES),
        "type_list_attr": Field(6, BYTES),
        "is_ref": Field(16, BOOLEAN),
    },
    "AttrDef": {
        "name": Field(1, BYTES),
        "type": Field(2, BYTES),
        "default_value": Field(3, "AttrValue"),
        "description": Field(4, BYTES),
        "has_minimum": Field(5, BOOLEAN),
        "minimum": Field(6, INTEGER),
        "allowed_values": Field(7, "AttrValue"),
    },
    "VersionDef": {
        "producer": Field(1, INTEGER),
        "min_consumer": Field(2, INTEGER),
        "bad_consumers": _many(3, INTEGER),
    },
    "SavedModel": {"meta_graphs": Field(2, "MetaGraphDef")},
    "MetaGraphDef": {
        "meta_info_def": Field(1, "MetaInfoDef"),
        "graph_def": Field(2, "GraphDef"),
        "signature_def": Field(5, "SignatureEntry"),
    },
    "MetaInfoDef": {"tags": Field(4, BYTES)},
    "SignatureEntry": {"key": Field(1, BYTES)},
}
# A file does not say which of the three it is. Their fields have different names.
SCHEMAS["File"] = SCHEMAS["GraphDef"] | SCHEMAS["MetaGraphDef"] | SCHEMAS["SavedModel"]

_DTYPES = (
    "INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32 BFLOAT16 QINT16"
    " QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E4M3FNUZ"
    " FLOAT8_E4M3B11FNUZ FLOAT8_E5M2FNUZ INT4 UINT4 INT2 UINT2 FLOAT4_E2M1FN"
).split()
DTYPE_NUMBERS = {f"DT_{name}".encode(): number for number, name in enumerate(_DTYPES)} | {
    f"DT_{name}_REF".encode(): number + 100 for number, name in enumerate(_DTYPES) if number
}
