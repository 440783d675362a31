"""The Graph: one program as columns.

Nodes are numbered in the order of the GraphDef, tensors in the order of their nodes and ports, so a
tensor's id is `first_output[node] + port`. Edges are stored in compressed rows: node `n` reads the tensors
`inputs[first_input[n]:first_input[n + 1]]` and waits for the nodes
`controls[first_control[n]:first_control[n + 1]]`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowtide.program.dtypes import dtype_name, element_bytes

Shape = tuple[int, ...]


@dataclass(slots=True)
class Graph:
    """A program: its nodes, the tensors between them, and the shapes where they are known."""

    names: list[str]
    ops: list[str]
    attributes: list[dict[str, Any]]
    first_input: list[int]
    inputs: list[int]
    first_control: list[int]
    controls: list[int]
    first_output: list[int]
    dtypes: list[int]
    shapes: list[Shape | None]
    values: dict[int, Any] = field(default_factory=dict)
    """Contents of small constants, by tensor id: NumPy arrays."""
    variables: dict[int, tuple[int, Shape]] = field(default_factory=dict)
    """Dtype and shape of the variable behind a resource handle, by the handle's tensor id."""
    folded: range = range(0)
    """Nodes that constant folding added."""
    earlier: tuple[int, ...] = ()
    """The position of each node before kernels of another library replaced some; empty if none did."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def tensor_count(self) -> int:
        return len(self.dtypes)

    def outputs_of(self, node: int) -> range:
        return range(self.first_output[node], self.first_output[node + 1])

    def inputs_of(self, node: int) -> Sequence[int]:
        return self.inputs[self.first_input[node] : self.first_input[node + 1]]

    def controls_of(self, node: int) -> Sequence[int]:
        return self.controls[self.first_control[node] : self.first_control[node + 1]]

    def producers(self) -> list[int]:
        """Return the node that produces each tensor."""
        nodes: list[int] = np.repeat(np.arange(len(self)), np.diff(self.first_output)).tolist()
        return nodes

    def producer(self, tensor: int) -> int:
        """Return the node that produces a tensor."""
        return bisect_right(self.first_output, tensor) - 1

    def tensor_bytes(self, tensor: int) -> int | None:
        shape = self.shapes[tensor]
        return None if shape is None else math.prod(shape) * element_bytes(self.dtypes[tensor])

    def variable_bytes(self, handle: int) -> int | None:
        """Return the size of the variable behind a handle; None for other resources, such as tables and iterators."""
        if handle not in self.variables:
            return None
        dtype, shape = self.variables[handle]
        return math.prod(shape) * element_bytes(dtype)

    def view(self, node: int) -> NodeView:
        return NodeView(self, node)


def is_replacement(op: str) -> bool:
    """Whether a pass of TensorFlow puts nodes with this op, a kernel of oneDNN, in the place of others."""
    return op.startswith("_Mkl")


# Ops that pass a resource handle through.
_HANDLE_PASSERS = frozenset("Identity Enter Exit Switch Merge NextIteration RefEnter".split())


def follow_handle(graph: Graph, tensor: int) -> int:
    """Return the argument or handle op that a resource tensor comes from."""
    seen = set()
    while tensor not in seen:
        seen.add(tensor)
        node = graph.producer(tensor)
        if graph.ops[node] not in _HANDLE_PASSERS:
            break
        tensor = graph.inputs_of(node)[0]
    return tensor


class NodeView:
    """One node as op facts see it: attributes, shapes, dtypes and known input values."""

    __slots__ = ("graph", "node")

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph = graph
        self.node = node

    @property
    def name(self) -> str:
        return self.graph.names[self.node]

    @property
    def op(self) -> str:
        return self.graph.ops[self.node]

    @property
    def input_count(self) -> int:
        return self.graph.first_input[self.node + 1] - self.graph.first_input[self.node]

    @property
    def output_count(self) -> int:
        return self.graph.first_output[self.node + 1] - self.graph.first_output[self.node]

    def attribute(self, key: str, default: Any = None) -> Any:
        """Return an attribute as an int, float, bool, str, dtype number or shape, or as a list of these."""
        return self.graph.attributes[self.node].get(key, default)

    def _input(self, index: int) -> int:
        return self.graph.inputs[self.graph.first_input[self.node] + index]

    def input_shape(self, index: int) -> Shape | None:
        return self.graph.shapes[self._input(index)]

    def input_dtype(self, index: int) -> str:
        return dtype_name(self.graph.dtypes[self._input(index)])

    def input_bytes(self, index: int) -> int | None:
        return self.graph.tensor_bytes(self._input(index))

    def input_value(self, index: int) -> Any:
        """Return the contents of a small constant input as a NumPy array, else None."""
        return self.graph.values.get(self._input(index))

    def output_shape(self, index: int = 0) -> Shape | None:
        return self.graph.shapes[self.graph.first_output[self.node] + index]

    def output_dtype(self, index: int = 0) -> str:
        return dtype_name(self.graph.dtypes[self.graph.first_output[self.node] + index])

    def output_bytes(self, index: int = 0) -> int | None:
        return self.graph.tensor_bytes(self.graph.first_output[self.node] + index)
