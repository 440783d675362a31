"""What the program's own graph says of recorded memory: layers, kinds, lines, and what lies in XLA's blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lowtide.run.chunks import Chunk
from lowtide.tide.layers import find_layer, without_number
from lowtide.tide.owner import Owner
from lowtide.tide.rows import split_block

# In the names of what a tape adds to a graph, and of what TensorFlow 1 added.
_BACKWARD, _GRADIENTS = "gradient_tape/", "gradients"
NO_OP = "unknown"
"""The op of what was allocated while none ran: an array that Python handed over, mostly."""
UNIDENTIFIED = "from before the recording"
"""The name of what was there already, and of which only the size is known."""


@dataclass(frozen=True)
class Names:
    """What is known of a program's names; with nothing known, names speak for themselves."""

    nodes: Mapping[str, Owner] = field(default_factory=dict)
    layers: frozenset[str] = frozenset()
    input_bytes: frozenset[int] = frozenset()
    """Sizes of the tensors of one batch, as the step draws them from a data set."""
    blocks: Mapping[int, tuple[Owner, ...]] = field(default_factory=dict)
    """What lies in the temporary block of a compiled step, by the block's size."""
    source_of: Callable[[str], str | None] | None = None


def owners_of(chunk: Chunk, names: Names) -> list[Owner]:
    """Return the owners of a chunk: one, or one for each value in a block that XLA allocated."""
    parts = names.blocks.get(chunk.requested)
    known = Owner(bytes=chunk.allocated, requested_bytes=chunk.requested, address=chunk.address)
    if chunk.place is None and parts is not None:
        return split_block(known, parts)
    return [_identify(known, chunk, names)]


def _identify(known: Owner, chunk: Chunk, names: Names) -> Owner:
    place, node = chunk.place, chunk.operation
    if place is not None:
        op = "Variable" if place.kind != "input" else "_Arg"
        found = Owner(place.name, op, place.layer, place.kind, place.dtype, place.shape)
    elif not chunk.identified:
        found = Owner(UNIDENTIFIED, NO_OP, None, "other", "uint8")
    elif chunk.requested in names.input_bytes and (node is None or node not in names.nodes):
        found = Owner("batch", node or "data set", None, "input", chunk.dtype, chunk.shape)
    elif node is None:
        found = Owner("array from Python", NO_OP, None, "other", chunk.dtype, chunk.shape)
    else:
        fact = names.nodes.get(node) or _owner_by_name(node, names.layers)
        if chunk.region == "temp":
            # The handle of a variable exists as long as the variable.
            kind = "other" if fact.op == "VarHandleOp" else "workspace"
            found = Owner(node, fact.op, fact.layer, kind, chunk.dtype, chunk.shape)
        else:
            found = Owner(f"{node}:0", fact.op, fact.layer, fact.kind, chunk.dtype, chunk.shape)
    return replace(
        found,
        dtype=found.dtype or "uint8",
        bytes=known.bytes,
        requested_bytes=known.requested_bytes,
        address=known.address,
    )


def _owner_by_name(node: str, layers: frozenset[str]) -> Owner:
    """Return what the name of a node says, where the graph does not have it or is not known."""
    layer = find_layer(node, layers) if layers else None
    op = without_number(node.rpartition("/")[2])
    if _BACKWARD in node or _GRADIENTS in node.split("/")[:-1]:
        return Owner(op=op, layer=layer, kind="gradients")
    return Owner(op=op, layer=layer, kind="activations" if layer is not None else "other")
