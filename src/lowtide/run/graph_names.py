"""What the program's own graph says of recorded memory: layers, kinds, lines, and what lies in XLA's blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lowtide.run.chunks import Chunk
from lowtide.tide.describe import NodeFact
from lowtide.tide.layers import find_layer, without_number
from lowtide.tide.rows import Part, Row, rows_of_block

# In the names of what a tape adds to a graph, and of what TensorFlow 1 added.
_BACKWARD, _GRADIENTS = "gradient_tape/", "gradients"
NO_OP = "unknown"
"""The op of what was allocated while none ran: an array that Python handed over, mostly."""
UNIDENTIFIED = "from before the recording"
"""The name of what was there already, and of which only the size is known."""


@dataclass(frozen=True)
class Names:
    """What is known of a program's names; with nothing known, names speak for themselves."""

    nodes: Mapping[str, NodeFact] = field(default_factory=dict)
    layers: frozenset[str] = frozenset()
    input_bytes: frozenset[int] = frozenset()
    """Sizes of the tensors of one batch, as the step draws them from a data set."""
    blocks: Mapping[int, tuple[Part, ...]] = field(default_factory=dict)
    """What lies in the temporary block of a compiled step, by the block's size."""
    source_of: Callable[[str], str | None] | None = None


def rows_of(chunk: Chunk, born: int, died: int, names: Names) -> list[Row]:
    """A chunk as rows of a tide: one, or one for each value in a block that XLA allocated."""
    parts = names.blocks.get(chunk.requested)
    if chunk.place is None and parts is not None:
        return rows_of_block(parts, chunk.requested, chunk.allocated, born, died, chunk.address)
    name, op, layer, kind, dtype, shape = _identity(chunk, names)
    return [Row(name, op, layer, kind, dtype, shape, chunk.requested, chunk.allocated, born, died, None, chunk.address)]


Identity = tuple[str, str, str | None, str, str, tuple[int, ...] | None]


def _identity(chunk: Chunk, names: Names) -> Identity:
    place, node = chunk.place, chunk.operation
    if place is not None:
        return (
            place.name,
            "Variable" if place.kind != "input" else "_Arg",
            place.layer,
            place.kind,
            place.dtype,
            place.shape,
        )
    dtype = chunk.dtype or "uint8"
    if not chunk.identified:
        return UNIDENTIFIED, NO_OP, None, "other", "uint8", None
    if chunk.requested in names.input_bytes and (node is None or node not in names.nodes):
        return "batch", node or "data set", None, "input", dtype, chunk.shape
    if node is None:
        return "array from Python", NO_OP, None, "other", dtype, chunk.shape
    fact = names.nodes.get(node) or _fact_by_name(node, names.layers)
    if chunk.region == "temp":
        # What names a variable to the graph is there as long as the variable.
        kind = "other" if fact.op == "VarHandleOp" else "workspace"
        return node, fact.op, fact.layer, kind, dtype, chunk.shape
    return f"{node}:0", fact.op, fact.layer, fact.kind, dtype, chunk.shape


def _fact_by_name(node: str, layers: frozenset[str]) -> NodeFact:
    """Where the graph does not have the node: an op that ran by itself, or a graph that is not known."""
    layer = find_layer(node, layers) if layers else None
    op = without_number(node.rpartition("/")[2])
    if _BACKWARD in node or _GRADIENTS in node.split("/")[:-1]:
        return NodeFact(op, layer, "gradients")
    return NodeFact(op, layer, "activations" if layer is not None else "other")
