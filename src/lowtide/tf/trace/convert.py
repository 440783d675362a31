"""From TensorFlow's GraphDef to lowtide's Graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from tensorflow.core.framework import attr_value_pb2, graph_pb2, op_def_pb2, tensor_pb2, tensor_shape_pb2
from tensorflow.python.framework import op_def_registry, tensor_util

from lowtide.program.dtypes import RESOURCE
from lowtide.program.graph import Graph, Shape

# The contents of constants of up to this many elements are kept: shapes, axes, permutations and trip counts.
LARGEST_KEPT_VALUE = 64


def graph_from_def(graph_def: graph_pb2.GraphDef) -> Graph:
    """Return the columns of a GraphDef; shapes are unknown, except those of constants."""
    position = {node.name: index for index, node in enumerate(graph_def.node)}
    columns = Graph([], [], [], [0], [], [0], [], [0], [], [])
    for node in graph_def.node:
        columns.names.append(node.name)
        columns.ops.append(node.op)
        columns.attributes.append(plain_attributes(node.attr))
        columns.dtypes.extend(output_dtypes(node))
        columns.first_output.append(len(columns.dtypes))
    columns.shapes = [None] * len(columns.dtypes)
    for node in graph_def.node:
        for reference in node.input:
            if reference.startswith("^"):
                columns.controls.append(position[reference[1:]])
            else:
                name, _, port = reference.partition(":")
                columns.inputs.append(columns.first_output[position[name]] + (int(port) if port else 0))
        columns.first_input.append(len(columns.inputs))
        columns.first_control.append(len(columns.controls))
    for index, node in enumerate(graph_def.node):
        tensor = columns.first_output[index]
        if node.op == "Const":
            _keep_constant(columns, tensor, node.attr["value"].tensor)
        elif node.op == "VarHandleOp":
            _keep_variable(columns, tensor, node.attr["dtype"].type, node.attr["shape"].shape)
        elif "_handle_shapes" in node.attr and node.attr["_handle_shapes"].list.shape:
            handle_dtypes = node.attr["_handle_dtypes"].list.type
            _keep_variable(columns, tensor, handle_dtypes[0], node.attr["_handle_shapes"].list.shape[0])
    return columns


def with_constants_of(graph: Graph, graph_def: graph_pb2.GraphDef) -> Graph:
    """Return the same graph with the constants of a GraphDef that differs in nothing else."""
    result = dataclasses.replace(graph, shapes=list(graph.shapes), values=dict(graph.values))
    for index, op in enumerate(graph.ops):
        if op == "Const":
            _keep_constant(result, graph.first_output[index], graph_def.node[index].attr["value"].tensor)
    return result


def _keep_constant(columns: Graph, tensor: int, proto: tensor_pb2.TensorProto) -> None:
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    columns.shapes[tensor] = shape
    if int(np.prod(shape)) <= LARGEST_KEPT_VALUE and proto.dtype in _NUMERIC:
        columns.values[tensor] = tensor_util.MakeNdarray(proto)


def _keep_variable(columns: Graph, tensor: int, dtype: int, proto: tensor_shape_pb2.TensorShapeProto) -> None:
    shape = plain_shape(proto)
    if shape is not None and -1 not in shape and columns.dtypes[tensor] == RESOURCE:
        columns.variables[tensor] = (dtype, shape)


# float, double, int32, uint8, int16, int8, int64, bool: the dtypes of shapes, axes and loop counters.
_NUMERIC = {1, 2, 3, 4, 5, 6, 9, 10}


def plain_attributes(attributes: Any) -> dict[str, Any]:
    """Return attributes as plain Python values, without internal ones (leading underscore) and constants' contents."""
    return {
        key: plain_value(value)
        for key, value in attributes.items()
        if key[0] != "_" and value.WhichOneof("value") != "tensor"
    }


def plain_value(value: attr_value_pb2.AttrValue) -> Any:
    """Return the value of an attribute as a plain Python value."""
    kind = value.WhichOneof("value")
    if kind == "s":
        return value.s.decode("utf-8", "replace")
    if kind == "shape":
        return plain_shape(value.shape)
    if kind == "func":
        return value.func.name
    if kind == "list":
        return _plain_list(value.list)
    return None if kind is None else getattr(value, kind)


def _plain_list(values: attr_value_pb2.AttrValue.ListValue) -> list[Any]:
    if values.s:
        return [text.decode("utf-8", "replace") for text in values.s]
    if values.shape:
        return [plain_shape(shape) for shape in values.shape]
    if values.func:
        return [function.name for function in values.func]
    return list(values.i or values.type or values.f or values.b)


def plain_shape(shape: tensor_shape_pb2.TensorShapeProto) -> Shape | None:
    """Return the dimensions, with -1 for an unknown one as in TensorFlow's files; None if the rank is unknown."""
    return None if shape.unknown_rank else tuple(dim.size for dim in shape.dim)


_OP_OUTPUTS: dict[str, list[op_def_pb2.OpDef.ArgDef] | None] = {}


def output_dtypes(node: Any) -> list[int]:
    """Return the dtype of every output of a node, from the definition of its op."""
    if node.op not in _OP_OUTPUTS:
        definition = op_def_registry.get(node.op)
        _OP_OUTPUTS[node.op] = None if definition is None else list(definition.output_arg)
    outputs = _OP_OUTPUTS[node.op]
    if outputs is None:
        return [1]
    result: list[int] = []
    for output in outputs:
        if output.type_list_attr:
            result.extend(node.attr[output.type_list_attr].list.type)
            continue
        dtype = output.type or node.attr[output.type_attr].type
        count = node.attr[output.number_attr].i if output.number_attr else 1
        result.extend([dtype] * count)
    return result
