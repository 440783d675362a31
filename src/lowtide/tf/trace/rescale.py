"""The same program at another batch size, without tracing it again.

A step is traced for one batch size, because that is how it will run; the batch then stands as a plain number in
the arguments, and in the constants that carry shapes. `lowtide.program.batch_axis` tells where the batch is; here it is
exchanged in the constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import tensor_util

from lowtide.program.batch_axis import Axis
from lowtide.program.graph import Graph, Shape

# Below this, too many sizes are multiples of the batch by accident.
SMALLEST_RESCALED_BATCH = 5

# Inputs that are shapes, by op: the position of the shape, and of the tensor that tells whether there is a batch in it.
_SHAPES: Mapping[str, tuple[int, int]] = {
    "Reshape": (1, 0),
    "Conv2DBackpropInput": (0, 2),
    "_MklNativeConv2DBackpropInput": (0, 2),
    "Conv3DBackpropInputV2": (0, 2),
    "_MklNativeConv3DBackpropInputV2": (0, 2),
    "DepthwiseConv2dNativeBackpropInput": (0, 2),
    "_MklNativeDepthwiseConv2dNativeBackpropInput": (0, 2),
    "AvgPoolGrad": (0, 1),
    "AvgPool3DGrad": (0, 1),
    "_MklNativeAvgPoolGrad": (0, 1),
    "_MklNativeAvgPool3DGrad": (0, 1),
    "StridedSliceGrad": (0, 4),
    "Slice": (2, 0),
    "StridedSlice": (2, 0),
    "BroadcastTo": (1, 0),
}
# Inputs that are shapes where no tensor tells: the batch is there only if the leading size is the batch itself.
_UNTOLD: Mapping[str, tuple[int, ...]] = {
    "Fill": (0,),
    "Empty": (0,),
    "BroadcastTo": (1,),
    "Tile": (1,),
    "Range": (1,),
    "ScatterNd": (2,),
    "RandomUniform": (0,),
    "RandomStandardNormal": (0,),
    "TruncatedNormal": (0,),
    "RandomUniformInt": (0,),
    "TensorListReserve": (0, 1),
    "EmptyTensorList": (0,),
    "TensorListStack": (1,),
    "TensorListFromTensor": (1,),
    "TensorListGetItem": (2,),
    "TensorListPopBack": (1,),
    "BroadcastGradientArgs": (0, 1),
    "BroadcastArgs": (0, 1),
}


def rescale(
    graph_def: graph_pb2.GraphDef, graph: Graph, axes: Sequence[Axis], old: int, new: int
) -> graph_pb2.GraphDef:
    """A copy of the graph with the batch `old` replaced by `new` in its constants."""
    changes = _changes(graph, axes, old, new)
    stretched = _stretched(graph, axes, old)
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    for index, node in enumerate(result.node):
        if node.op == "Const":
            tensor = node.attr["value"].tensor
            if graph.first_output[index] in changes:
                value = changes[graph.first_output[index]]
                tensor.CopyFrom(tensor_util.make_tensor_proto(value, dtype=tensor.dtype, shape=value.shape))
            elif graph.first_output[index] in stretched:
                _rescale_contents(tensor, old, new)
        elif node.op == "TemporaryVariable":
            _rescale_attribute(node.attr["shape"].shape, old, new)
    return result


def _changes(graph: Graph, axes: Sequence[Axis], old: int, new: int) -> dict[int, np.ndarray[Any, Any]]:
    """New values of the constants that carry the batch, by tensor id."""
    changes: dict[int, np.ndarray[Any, Any]] = {}
    for node, op in enumerate(graph.ops):
        inputs = graph.inputs_of(node)
        told = _SHAPES.get(op)
        if told is not None and max(told) < len(inputs) and axes[inputs[told[1]]] is not None:
            _change(graph, inputs[told[0]], old, new, True, changes)
        for position in (0,) if op.startswith("StatelessRandom") else _UNTOLD.get(op, ()):
            if position < len(inputs):
                _change(graph, inputs[position], old, new, False, changes)
    return changes


def _change(
    graph: Graph, tensor: int, old: int, new: int, batched: bool, changes: dict[int, np.ndarray[Any, Any]]
) -> None:
    value = graph.values.get(tensor)
    if value is None or value.dtype.kind != "i" or not value.size:
        return
    sizes = np.array(value)
    flat = sizes.reshape(-1)
    if flat[0] == old or (batched and flat[0] > 0 and flat[0] % old == 0):
        flat[0] = flat[0] // old * new
    elif flat.size > 1:
        # Time-major layouts have the batch further back.
        flat[flat == old] = new
    if not np.array_equal(sizes, value):
        changes[tensor] = sizes


def _stretched(graph: Graph, axes: Sequence[Axis], old: int) -> set[int]:
    """Constants with the batch as their leading size: a state of zeros, or what meets a tensor of that size."""
    found = {
        graph.first_output[node]
        for node, op in enumerate(graph.ops)
        if op == "Const"
        and len(graph.shapes[graph.first_output[node]] or ()) >= 2
        and (graph.shapes[graph.first_output[node]] or (0,))[0] == old
    }
    for node in range(len(graph)):
        inputs = graph.inputs_of(node)
        leading = {(graph.shapes[tensor] or (None,))[0] for tensor in inputs if axes[tensor] == 0}
        for tensor in inputs if leading else ():
            shape = graph.shapes[tensor]
            # A row of integers may be a shape or a permutation, whose length is no batch.
            is_data = len(shape or ()) > 1 or graph.dtypes[tensor] not in (3, 9)
            if shape and is_data and shape[0] in leading and graph.ops[graph.producer(tensor)] == "Const":
                found.add(tensor)
    return found


def _rescale_contents(tensor: Any, old: int, new: int) -> None:
    """Only the shape of such a constant matters here."""
    dims = tensor.tensor_shape.dim
    if not dims or dims[0].size % old:
        return
    shape = (dims[0].size // old * new, *(dim.size for dim in dims[1:]))
    dtype = tensor.dtype
    tensor.Clear()
    tensor.dtype = dtype
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    # One element stands for all: a tensor's proto may leave out what repeats.
    if dtype == 1:
        tensor.float_val.append(0.0)


def _rescale_attribute(shape: Any, old: int, new: int) -> None:
    if shape.dim and shape.dim[0].size and shape.dim[0].size % old == 0:
        shape.dim[0].size = shape.dim[0].size // old * new


def rescale_shape(shape: Shape | None, old: int, new: int) -> Shape | None:
    """An argument's shape with its leading size exchanged, if that is the batch."""
    if not shape or shape[0] != old:
        return shape
    return (new, *shape[1:])
