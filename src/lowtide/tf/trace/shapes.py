"""Shapes of every tensor of an executed graph, for given shapes of its arguments.

TensorFlow infers them (Grappler's `GraphProperties`, which also follows the values of shape tensors). It does not trust
the shapes of placeholders and would allocate a tensor for each, so arguments are described to it as reads of variables:
nothing is allocated, whatever the batch size.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.core.grappler.costs import op_performance_data_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.grappler import _pywrap_tf_item

from lowtide.program.dtypes import RESOURCE
from lowtide.program.graph import Graph, Shape

# Convolutions with which oneDNN fuses the padding. TensorFlow infers their shapes as if they did not pad.
_PADDED_CONVOLUTIONS = ("_MklNativePadWithConv2D", "_MklNativePadWithFusedConv2D")

_TensorProperties = op_performance_data_pb2.OpInfo.TensorProperties


def infer_shapes(graph: Graph, graph_def: graph_pb2.GraphDef, arguments: Mapping[int, Shape]) -> list[Shape | None]:
    """Return one shape per tensor of `graph`, with None or -1 for what TensorFlow cannot infer."""
    meta = meta_graph_pb2.MetaGraphDef()
    _describe(graph_def, arguments, meta.graph_def)
    meta.collection_def["train_op"].node_list.value.append(meta.graph_def.node[0].name)
    item = _pywrap_tf_item.TF_NewItem(meta.SerializeToString(), False, False)
    properties = _pywrap_tf_item.TF_GetOpProperties(item)
    return _shapes_of(graph, properties)


def _shapes_of(graph: Graph, properties: Mapping[str, list[bytes]]) -> list[Shape | None]:
    shapes = list(graph.shapes)
    # Thousands of tensors have few distinct descriptions: parse each once.
    parsed: dict[bytes, Shape | None] = {}
    for node, name in enumerate(graph.names):
        first = graph.first_output[node]
        for port, text in enumerate(properties.get(name, ())):
            if first + port >= graph.first_output[node + 1]:
                break
            if text not in parsed:
                parsed[text] = _parse(text)
            if shapes[first + port] is None:
                shapes[first + port] = parsed[text]
    return shapes


def _parse(text: bytes) -> Shape | None:
    shape = _TensorProperties.FromString(text).shape
    if shape.unknown_rank:
        return None
    return tuple(dim.size if dim.size >= 0 else -1 for dim in shape.dim)


def _describe(source: graph_pb2.GraphDef, arguments: Mapping[int, Shape], target: graph_pb2.GraphDef) -> None:
    """Copy the graph with its arguments turned into variables and their reads."""
    target.versions.CopyFrom(source.versions)
    target.library.CopyFrom(source.library)
    for node in source.node:
        if node.op in ("_Arg", "_DeviceArg"):
            _describe_argument(node, arguments, target)
            continue
        copy = target.node.add()
        copy.CopyFrom(node)
        copy.device = ""
        if node.op in ("_Retval", "_DeviceRetval"):
            copy.op = "Identity"
            del copy.attr["index"]
        for key in [key for key in copy.attr if key[0] == "_"]:
            del copy.attr[key]
        if node.op in _PADDED_CONVOLUTIONS:
            copy.input[0] = _describe_padding(node, target)


def _describe_padding(node: graph_pb2.GraphDef, target: graph_pb2.GraphDef) -> str:
    """Add the padding as a node before the convolution; return the name of its output."""
    paddings = [name for name in node.input if name[0] != "^"][-1]
    padded = target.node.add(name=node.name + "/lowtide_padded", op="Pad", input=[node.input[0], paddings])
    padded.attr["T"].type = node.attr["T"].type
    padded.attr["Tpaddings"].type = node.attr["Tpaddings"].type or types_pb2.DT_INT32
    return padded.name


def _describe_argument(node: graph_pb2.GraphDef, arguments: Mapping[int, Shape], target: graph_pb2.GraphDef) -> None:
    dtype = node.attr["T"].type
    if dtype == RESOURCE:
        handle = target.node.add(name=node.name, op="VarHandleOp")
        handle.attr["shared_name"].s = node.name.encode()
        _describe_variable(node, handle)
        return
    add_argument(target, node.name, dtype, arguments.get(node.attr["index"].i))


def add_argument(target: graph_pb2.GraphDef, name: str, dtype: int, shape: Shape | None) -> None:
    """Add a tensor of a given shape, as the read of a variable; `name` names the read."""
    handle = target.node.add(name=f"{name}/lowtide_argument", op="VarHandleOp")
    handle.attr["shared_name"].s = handle.name.encode()
    handle.attr["dtype"].type = dtype
    if shape is None:
        handle.attr["shape"].shape.unknown_rank = True
    else:
        handle.attr["shape"].shape.SetInParent()
        for size in shape:
            handle.attr["shape"].shape.dim.add(size=size)
    read = target.node.add(name=name, op="ReadVariableOp", input=[handle.name])
    read.attr["dtype"].type = dtype


def _describe_variable(node: graph_pb2.GraphDef, handle: graph_pb2.GraphDef) -> None:
    shapes = node.attr["_handle_shapes"].list.shape
    dtypes = node.attr["_handle_dtypes"].list.type
    handle.attr["dtype"].type = dtypes[0] if dtypes else 1
    if shapes:
        handle.attr["shape"].shape.CopyFrom(shapes[0])
    else:
        handle.attr["shape"].shape.unknown_rank = True
