"""The same program at another batch size, without tracing it again.

A step is traced for one batch size, because that is how it will run. The batch size is then a plain number in the
arguments and in the constants that are shapes. `program.batch_axis` finds the batch axes; this module replaces the
batch size in the constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import tensor_util

from lowtide.program.batch_axis import Axis
from lowtide.program.graph import Graph, Shape

# Below this batch size, too many other sizes are multiples of the batch by accident.
SMALLEST_RESCALED_BATCH = 5

# Inputs that are shapes, by op: the position of the shape, and of the tensor that shows whether it contains the batch.
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
# Of these, the ops whose shape is that of their output.
_OUTPUT_SHAPES = frozenset({"Reshape", "BroadcastTo", "StridedSliceGrad"})
# Inputs that are shapes, of ops without such a tensor: they contain the batch only if a size equals it.
_SHAPES_ALONE: Mapping[str, tuple[int, ...]] = {
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
    """Return a copy of the graph with the batch size `old` replaced by `new` in its constants."""
    shapes = _rescale_shapes(graph, axes, old, new)
    batched = _batched_constants(graph, axes, old)
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    for index, node in enumerate(result.node):
        if node.op == "Const":
            tensor = node.attr["value"].tensor
            if graph.first_output[index] in shapes:
                value = shapes[graph.first_output[index]]
                tensor.CopyFrom(tensor_util.make_tensor_proto(value, dtype=tensor.dtype, shape=value.shape))
            elif graph.first_output[index] in batched:
                _rescale_contents(tensor, old, new)
        elif node.op == "TemporaryVariable":
            _rescale_attribute(node.attr["shape"].shape, old, new)
    return result


def _rescale_shapes(graph: Graph, axes: Sequence[Axis], old: int, new: int) -> dict[int, np.ndarray[Any, Any]]:
    """Return the new values of constants that are shapes with the batch, by tensor id."""
    changes: dict[int, np.ndarray[Any, Any]] = {}
    for node, op in enumerate(graph.ops):
        inputs = graph.inputs_of(node)
        shape, witness = _SHAPES.get(op, (len(inputs), len(inputs)))
        if max(shape, witness) < len(inputs) and axes[inputs[witness]] is not None:
            axis = axes[graph.first_output[node]] if op in _OUTPUT_SHAPES else None
            _rescale_constant(graph, inputs[shape], old, new, True, changes, axis)
        for position in (0,) if op.startswith("StatelessRandom") else _SHAPES_ALONE.get(op, ()):
            if position < len(inputs):
                _rescale_constant(graph, inputs[position], old, new, False, changes)
    return changes


def _rescale_constant(
    graph: Graph,
    tensor: int,
    old: int,
    new: int,
    batched: bool,
    changes: dict[int, np.ndarray[Any, Any]],
    axis: Axis = None,
) -> None:
    """Replace the batch size in a shape; `axis` says where it is, if that is known."""
    value = graph.values.get(tensor)
    if value is None or value.dtype.kind != "i" or not value.size:
        return
    sizes = np.array(value)
    flat = sizes.reshape(-1)
    if axis is not None and axis < flat.size:
        # Other sizes may equal the batch by accident. -1 stands for what remains.
        if flat[axis] > 0 and flat[axis] % old == 0:
            flat[axis] = flat[axis] // old * new
    elif flat[0] == old or (batched and flat[0] > 0 and flat[0] % old == 0):
        flat[0] = flat[0] // old * new
    elif flat.size > 1:
        # In time-major layouts the batch is not the first axis.
        flat[flat == old] = new
    if not np.array_equal(sizes, value):
        changes[tensor] = sizes


def _batched_constants(graph: Graph, axes: Sequence[Axis], old: int) -> set[int]:
    """Return constants whose leading size is the batch: initial states, or operands of a tensor of that size."""
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
            # A vector of integers may be a shape or a permutation, whose length is not the batch.
            is_data = len(shape or ()) > 1 or graph.dtypes[tensor] not in (3, 9)
            if shape and is_data and shape[0] in leading and graph.ops[graph.producer(tensor)] == "Const":
                found.add(tensor)
    return found


def _rescale_contents(tensor: Any, old: int, new: int) -> None:
    """Replace a constant by zeros of the new shape, since only its shape matters here."""
    dims = tensor.tensor_shape.dim
    if not dims or dims[0].size % old:
        return
    shape = (dims[0].size // old * new, *(dim.size for dim in dims[1:]))
    dtype = tensor.dtype
    tensor.Clear()
    tensor.dtype = dtype
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    # A proto with one element repeats it.
    if dtype == 1:
        tensor.float_val.append(0.0)


def _rescale_attribute(shape: Any, old: int, new: int) -> None:
    if shape.dim and shape.dim[0].size and shape.dim[0].size % old == 0:
        shape.dim[0].size = shape.dim[0].size // old * new


def is_consistent(before: Graph, after: Graph, axes: Sequence[Axis], old: int, new: int) -> bool:
    """Whether only the batch axes of a graph have changed, and no shape has become unknown.

    Otherwise some other size was mistaken for the batch, or the batch for another size.
    """
    for shape, other, axis in zip(before.shapes, after.shapes, axes, strict=True):
        if shape == other and axis is None:
            continue
        if shape is None or -1 in shape:
            continue
        if other is None or len(other) != len(shape):
            return False
        changed = [position for position, size in enumerate(shape) if other[position] != size]
        # The axis of a tensor that depends on no input, such as a constant, is not known.
        allowed = changed[:1] if axis is None else [axis]
        if other != tuple(size // old * new if position in allowed else size for position, size in enumerate(shape)):
            return False
    return True


def rescale_shape(shape: Shape | None, old: int, new: int) -> Shape | None:
    """Return an argument's shape with its leading size replaced, if that is the batch."""
    if not shape or shape[0] != old:
        return shape
    return (new, *shape[1:])
