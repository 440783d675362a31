"""The same program at another batch size, without tracing it again.

A step is traced for one batch size, because that is how it will run; the batch then stands as a plain number in
the arguments, and in the constants that carry shapes. Those are the places to change it. A number counts as the
batch where it is the leading size of a shape (or, where that is not divisible by the batch, an equal size
further back, as in time-major layouts), and only at inputs that are shapes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import tensor_util

from lowtide.graph.graph import Shape

# Below this, too many sizes are multiples of the batch by accident.
SMALLEST_TELLING_BATCH = 5

# Inputs that are shapes, or sizes of the leading dimension, by op.
_SHAPE_INPUTS: Mapping[str, tuple[int, ...]] = {
    "Reshape": (1,),
    "Fill": (0,),
    "Empty": (0,),
    "BroadcastTo": (1,),
    "Tile": (1,),
    "Conv2DBackpropInput": (0,),
    "_MklNativeConv2DBackpropInput": (0,),
    "Conv3DBackpropInputV2": (0,),
    "_MklNativeConv3DBackpropInputV2": (0,),
    "DepthwiseConv2dNativeBackpropInput": (0,),
    "_MklNativeDepthwiseConv2dNativeBackpropInput": (0,),
    "AvgPoolGrad": (0,),
    "AvgPool3DGrad": (0,),
    "_MklNativeAvgPoolGrad": (0,),
    "_MklNativeAvgPool3DGrad": (0,),
    "StridedSliceGrad": (0,),
    "Slice": (2,),
    "StridedSlice": (2,),
    "Range": (1,),
    "ScatterNd": (2,),
    "UnsortedSegmentSum": (2,),
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
    "SparseReshape": (1, 2),
}


def rescale(graph_def: graph_pb2.GraphDef, old: int, new: int) -> graph_pb2.GraphDef:
    """A copy of the graph with the batch `old` replaced by `new` in its constants."""
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    constants = {node.name: node for node in result.node if node.op == "Const"}
    shapes_used: set[str] = set()
    for node in result.node:
        positions = (0,) if node.op.startswith("StatelessRandom") else _SHAPE_INPUTS.get(node.op, ())
        for position in positions:
            if position < len(node.input):
                shapes_used.add(node.input[position].partition(":")[0])
        if "shape" in node.attr and node.op in ("TemporaryVariable", "Placeholder"):
            _rescale_attribute(node.attr["shape"].shape, old, new)
    for name, node in constants.items():
        tensor = node.attr["value"].tensor
        if name in shapes_used and tensor.dtype in (3, 9):
            value = tensor_util.MakeNdarray(tensor)
            changed = rescale_sizes(value, old, new)
            if not np.array_equal(changed, value):
                tensor.CopyFrom(tensor_util.make_tensor_proto(changed, dtype=tensor.dtype, shape=changed.shape))
        else:
            _rescale_contents(tensor, old, new)
    return result


def rescale_sizes(value: np.ndarray, old: int, new: int) -> np.ndarray:
    """A shape, or one size, with the batch exchanged."""
    sizes = np.array(value)
    flat = sizes.reshape(-1)
    if not flat.size:
        return sizes
    if flat[0] > 0 and flat[0] % old == 0:
        flat[0] = flat[0] // old * new
    elif flat.size > 1:
        flat[flat == old] = new
    return sizes


def _rescale_contents(tensor: graph_pb2.GraphDef, old: int, new: int) -> None:
    """A constant with the batch as its leading size, such as a state of zeros: only its shape matters."""
    dims = tensor.tensor_shape.dim
    if len(dims) < 2 or dims[0].size != old:
        return
    shape = (new, *(dim.size for dim in dims[1:]))
    dtype = tensor.dtype
    tensor.Clear()
    tensor.dtype = dtype
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    # One element stands for all: a tensor's proto may leave out what repeats.
    if dtype == 1:
        tensor.float_val.append(0.0)


def _rescale_attribute(shape: graph_pb2.GraphDef, old: int, new: int) -> None:
    if shape.dim and shape.dim[0].size and shape.dim[0].size % old == 0:
        shape.dim[0].size = shape.dim[0].size // old * new


def rescale_shape(shape: Shape | None, old: int, new: int) -> Shape | None:
    """An argument's shape with its leading size exchanged, if that is the batch."""
    if not shape or shape[0] != old:
        return shape
    return (new, *shape[1:])
