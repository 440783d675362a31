"""The shapes of a graph for given argument shapes, including those that TensorFlow's inference leaves unknown.

These are of three sorts: shapes that depend on values that the inference does not follow (computed here), sizes that
depend on the data, such as the number of distinct ids in a batch (bounded from above), and everything computed from
these (inferred again, with the results inserted).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import tensor_util

from lowtide.program.dtypes import RESOURCE, VARIANT
from lowtide.program.graph import Graph, Shape
from lowtide.program.values import Value, propagate_values
from lowtide.tf.trace.shapes import add_argument, infer_shapes

MAX_ROUNDS = 6


def resolve_shapes(graph: Graph, graph_def: graph_pb2.GraphDef, arguments: Mapping[int, Shape]) -> Graph:
    """Return the graph with all shapes that can be determined, and the values that follow from them."""
    order = topological_order(graph)
    current = dataclasses.replace(graph, shapes=infer_shapes(graph, graph_def, arguments))
    _correct_bias_gradients(current, order)
    lists: TensorLists | None = None
    for _ in range(MAX_ROUNDS):
        current.values = propagate_values(current, order)
        if not any(_is_unknown(current, tensor) for tensor in range(graph.tensor_count)):
            break
        lists = lists or TensorLists(current)
        changed = _set_shapes(current, order, lists)
        if not changed or not any(_is_unknown(current, tensor) for tensor in range(graph.tensor_count)):
            break
        inferred = infer_shapes(graph, _substitute(graph_def, current), arguments)
        for tensor, shape in enumerate(inferred):
            if _is_unknown(current, tensor) and shape is not None:
                current.shapes[tensor] = shape
    return current


def topological_order(graph: Graph) -> list[int]:
    """Return the nodes, each after its inputs; a loop's back edges are ignored."""
    producers = graph.producers()
    waiting = [0] * len(graph)
    readers: list[list[int]] = [[] for _ in range(len(graph))]
    for node in range(len(graph)):
        for tensor in graph.inputs_of(node):
            if graph.ops[producers[tensor]] != "NextIteration":
                waiting[node] += 1
                readers[producers[tensor]].append(node)
    order = [node for node in range(len(graph)) if not waiting[node]]
    for node in order:
        for reader in readers[node]:
            waiting[reader] -= 1
            if not waiting[reader]:
                order.append(reader)
    return order


def _is_unknown(graph: Graph, tensor: int) -> bool:
    shape = graph.shapes[tensor]
    return (shape is None or -1 in shape) and graph.dtypes[tensor] not in (RESOURCE, VARIANT)


_WITH_BIAS = "BackpropFilterWithBias"


def _correct_bias_gradients(graph: Graph, order: list[int]) -> None:
    """Correct an error of the inference: a bias gradient fused with a filter gradient has the gradient's channels.

    TensorFlow takes another axis for it, and tensors that are computed from the bias and its slots then have no shape.
    """
    if not any(op.endswith(_WITH_BIAS) for op in set(graph.ops)):
        return
    changed: set[int] = set()
    for node in order:
        op, inputs, first = graph.ops[node], graph.inputs_of(node), graph.first_output[node]
        shape: Shape | None = None
        if op.endswith(_WITH_BIAS):
            first, gradient = first + 1, graph.shapes[inputs[2]]
            if gradient is not None:
                shape = (gradient[1 if graph.attributes[node].get("data_format") == "NCHW" else -1],)
        elif op in _ELEMENTWISE and changed.intersection(inputs):
            shapes = [graph.shapes[tensor] for tensor in inputs]
            shape = _broadcast(shapes) if all(_is_known(one) for one in shapes) else None  # type: ignore[arg-type]
        if shape is not None and shape != graph.shapes[first]:
            graph.shapes[first] = shape
            changed.add(first)


def _set_shapes(graph: Graph, order: list[int], lists: TensorLists) -> bool:
    """Set shapes that follow from values, list elements or bounds; return whether any was set."""
    changed = False
    for node in order:
        first = graph.first_output[node]
        if first == graph.first_output[node + 1] or not any(
            _is_unknown(graph, tensor) for tensor in graph.outputs_of(node)
        ):
            continue
        shapes = lists.shapes(node) if graph.ops[node].startswith("TensorList") else _shapes_by_rule(graph, node)
        for port, shape in enumerate(shapes or ()):
            if shape is not None and -1 not in shape and _is_unknown(graph, first + port):
                graph.shapes[first + port] = shape
                changed = True
    return changed


class TensorLists:
    """Which variant tensors are the same tensor list, and the shape of its elements."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.root = {tensor: tensor for tensor, dtype in enumerate(graph.dtypes) if dtype == VARIANT}
        self.pushed: dict[int, list[int]] = {}
        for node in range(len(graph)):
            variants = [tensor for tensor in (*graph.inputs_of(node), *graph.outputs_of(node)) if tensor in self.root]
            if graph.ops[node] in _SAME_LIST:
                for tensor in variants[1:]:
                    self.root[self._find(tensor)] = self._find(variants[0])
        for node, op in enumerate(graph.ops):
            position = {"TensorListPushBack": 1, "TensorListSetItem": 2}.get(op)
            if position is not None:
                inputs = graph.inputs_of(node)
                self.pushed.setdefault(self._find(inputs[0]), []).append(inputs[position])

    def _find(self, tensor: int) -> int:
        while self.root[tensor] != tensor:
            self.root[tensor] = self.root[self.root[tensor]]
            tensor = self.root[tensor]
        return tensor

    def element(self, tensor: int) -> Shape | None:
        """Return the shape of a list's elements; None if that of none is known."""
        for pushed in self.pushed.get(self._find(tensor), ()):
            shape = self.graph.shapes[pushed]
            if _is_known(shape):
                return shape
        return None

    def shapes(self, node: int) -> list[Shape | None] | None:
        """Return the output shapes of a node that works on a list; None if they are not known."""
        graph, op = self.graph, self.graph.ops[node]
        element = self.element(graph.inputs_of(node)[0]) if graph.inputs_of(node)[0] in self.root else None
        if op == "TensorListPopBack":
            return [(), element]
        if op == "TensorListGetItem":
            return [element]
        if op == "TensorListElementShape" and element is not None:
            return [(len(element),)]
        count = graph.attributes[node].get("num_elements", -1)
        if op == "TensorListStack" and element is not None and count >= 0:
            return [(count, *element)]
        return None


# Ops whose output list is their input list, updated or unchanged.
_SAME_LIST = frozenset(
    "Enter Exit Merge Switch NextIteration Identity TensorListPushBack TensorListPopBack TensorListSetItem "
    "TensorListResize".split()
)


def _shapes_by_rule(graph: Graph, node: int) -> list[Shape | None] | None:
    op, inputs = graph.ops[node], graph.inputs_of(node)
    shapes = [graph.shapes[tensor] for tensor in inputs]
    values = [graph.values.get(tensor) for tensor in inputs]
    if op in ("Enter", "Exit", "NextIteration", "Identity"):
        return [shapes[0]]
    if op == "Switch":
        return [shapes[0], shapes[0]]
    if op == "Merge":
        return [next((shape for shape in shapes if _is_known(shape)), None), ()]
    if op == "Reshape" and values[1] is not None:
        return [_reshaped(shapes[0], values[1])]
    if op in ("Fill", "RandomUniform", "RandomStandardNormal", "TruncatedNormal") and values[0] is not None:
        return [_as_shape(values[0])]
    if op.startswith("StatelessRandom") and values[0] is not None and values[0].ndim == 1:
        return [_as_shape(values[0])]
    if op == "BroadcastTo" and values[1] is not None:
        return [_as_shape(values[1])]
    if op in ("Unique", "UniqueV2") and _is_known(shapes[0]):
        # At most, all elements are distinct.
        return [(math.prod(shapes[0]),), (math.prod(shapes[0]),)]  # type: ignore[arg-type]
    if op == "Where" and _is_known(shapes[0]):
        return [(math.prod(shapes[0]), len(shapes[0]))]  # type: ignore[arg-type]
    if (
        op in ("UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentProd")
        and _is_known(shapes[0])
        and _is_known(shapes[1])
    ):
        segments = int(values[2]) if values[2] is not None else math.prod(shapes[1])  # type: ignore[arg-type]
        return [(segments, *shapes[0][len(shapes[1]) :])]  # type: ignore[index,arg-type]
    if op in ("Sum", "Mean", "Max", "Min", "Prod") and _is_known(shapes[0]) and values[1] is not None:
        return [_reduced(shapes[0], values[1], bool(graph.attributes[node].get("keep_dims")))]  # type: ignore[arg-type]
    if op == "Range" and all(value is not None for value in values):
        return [(len(np.arange(*values)),)]  # type: ignore[arg-type]
    if op in _ELEMENTWISE and shapes and all(_is_known(shape) for shape in shapes):
        return [_broadcast(shapes)]  # type: ignore[arg-type]
    return None


_ELEMENTWISE = frozenset(
    "Add AddV2 Sub Mul RealDiv Maximum Minimum SquaredDifference Pow SelectV2 AddN Relu ReluGrad Cast Neg Exp Log Sqrt "
    "Rsqrt Square Tanh TanhGrad Sigmoid SigmoidGrad Identity StopGradient Greater GreaterEqual Less LessEqual Equal "
    "NotEqual LogicalAnd LogicalOr LogicalNot ZerosLike OnesLike DivNoNan MulNoNan Softplus SoftplusGrad Elu EluGrad "
    "Erf".split()
)


def _is_known(shape: Shape | None) -> bool:
    return shape is not None and -1 not in shape


def _as_shape(value: Value) -> Shape:
    return tuple(int(size) for size in np.ravel(value))


def _reshaped(shape: Shape | None, value: Value) -> Shape | None:
    target = _as_shape(value)
    if -1 not in target:
        return target
    if not _is_known(shape):
        return None
    rest = math.prod(size for size in target if size != -1)
    return tuple(math.prod(shape) // max(rest, 1) if size == -1 else size for size in target)  # type: ignore[arg-type]


def _reduced(shape: Shape, axes: Value, keep: bool) -> Shape:
    removed = {int(axis) % max(len(shape), 1) for axis in np.ravel(axes)}
    if keep:
        return tuple(1 if axis in removed else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in removed)


def _broadcast(shapes: list[Shape]) -> Shape | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def _substitute(graph_def: graph_pb2.GraphDef, graph: Graph) -> graph_pb2.GraphDef:
    """Return the graph with known tensors replaced by constants, or by arguments of their shape."""
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    known: dict[str, str] = {}
    for index in range(len(graph)):
        op = graph.ops[index]
        if op in ("Const", "_Arg", "_DeviceArg", "VarHandleOp", "ReadVariableOp"):
            continue
        for port, tensor in enumerate(graph.outputs_of(index)):
            name = f"{graph.names[index]}/lowtide_known_{port}"
            if tensor in graph.values and op not in _CONTROL_FLOW:
                _add_constant(result, name, graph.values[tensor], graph.dtypes[tensor])
            elif _is_known(graph.shapes[tensor]) and graph.dtypes[tensor] not in (RESOURCE, VARIANT):
                add_argument(result, name, graph.dtypes[tensor], graph.shapes[tensor])
            else:
                continue
            known[f"{graph.names[index]}:{port}" if port else graph.names[index]] = name
    for node in result.node:
        for position, reference in enumerate(node.input):
            if reference in known:
                node.input[position] = known[reference]
    return result


_CONTROL_FLOW = frozenset("Switch Merge Enter Exit NextIteration LoopCond".split())


def _add_constant(graph_def: graph_pb2.GraphDef, name: str, value: Value, dtype: int) -> None:
    node = graph_def.node.add(name=name, op="Const")
    node.attr["dtype"].type = dtype
    node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(value, dtype=dtype, shape=value.shape))
