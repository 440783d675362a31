"""Constants whose contents are in the graph of a step: arrays that a traced function closes over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lowtide.planning.remedies.remedy import COUNTED, PROCESS, Remedy
from lowtide.tf.remedies.subject import Subject
from lowtide.tf.trace.source_lines import find_user_line, inner_functions
from lowtide.tide.layers import find_layer
from lowtide.units import format_bytes

# Smaller constants are not looked at.
_SMALLEST_BYTES = 64 << 10


@dataclass(frozen=True)
class Copies:
    """How often a process holds a constant of a graph: measured with constants of 32 to 128 MiB, as resident memory.

    The constant is in the graphs of the function and of the functions that it calls, in the runtime's library, in the
    optimized graph and in its kernel. While the step is built it is in the messages between them too.
    """

    lasting: int
    at_start: int


# `fit` calls the step through another function.
IN_FIT, IN_FUNCTION = Copies(11, 19), Copies(7, 16)


@dataclass(frozen=True)
class BakedConstant:
    """A constant of a traced graph."""

    name: str
    bytes: int
    dtype: str
    shape: tuple[int, ...]
    source: str | None

    @property
    def description(self) -> str:
        """Size, type and shape."""
        return f"{format_bytes(self.bytes)}, {self.dtype} {'×'.join(map(str, self.shape))}"


def find_baked_constants(concrete: Any) -> list[BakedConstant]:
    """Return the large constants in the graphs of a traced function and of the functions that it calls."""
    found: dict[tuple[Any, ...], BakedConstant] = {}
    for graph in (concrete.graph, *inner_functions(concrete.graph).values()):
        for operation in graph.get_operations():
            if operation.type != "Const":
                continue
            tensor = operation.outputs[0]
            elements = tensor.shape.num_elements()
            if elements is None or elements * tensor.dtype.size < _SMALLEST_BYTES:
                continue
            # A constant that repeats one number is small in the graph.
            size = elements * tensor.dtype.size
            if operation.node_def.attr["value"].tensor.ByteSize() < size // 2:
                continue
            # The forward function of a gradient has the same constants as the function.
            shape, dtype = tuple(tensor.shape), tensor.dtype.name
            constant = BakedConstant(operation.name, size, dtype, shape, find_user_line(operation))
            found.setdefault((operation.name, shape, dtype), constant)
    return sorted(found.values(), key=lambda each: -each.bytes)


def unbake(subject: Subject) -> Iterator[Remedy]:
    """Yield a remedy for each large constant in the graph of a step."""
    model = subject.model
    copies = IN_FUNCTION if model is None else IN_FIT
    for constant in find_baked_constants(subject.step.concrete):
        layers = subject.step.metadata.layers
        layer = find_layer(constant.name, layers) if layers else None
        where = "the graph of the step" if layer is None else f"the graph, in layer {layer}"
        cure = (
            "hold it in a weight of the layer: self.add_weight(shape=..., trainable=False), then assign(...)"
            if layer is not None
            else "hold it in a tf.Variable(..., trainable=False) that is made before the step is traced"
        )
        yield Remedy(
            "constants",
            f"a constant of {constant.description} is in {where}: the process holds it about {copies.lasting} times,"
            f" and {copies.at_start} times while the step is built",
            cure,
            (copies.lasting - 1) * constant.bytes,
            PROCESS,
            method=COUNTED,
            source=constant.source,
        )
