"""The owners of recorded chunks, named with the program's graph: layers, kinds, and the contents of XLA's blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lowtide.run.chunks import RecordedChunk
from lowtide.tide.layers import find_layer, without_number
from lowtide.tide.owner import Owner
from lowtide.tide.rows import split_block

# Scopes of gradient nodes, by a tape and in TensorFlow 1.
_BACKWARD, _GRADIENTS = "gradient_tape/", "gradients"
NO_OP = "unknown"
"""The op of a chunk that was allocated while no op ran, mostly an array from Python."""
UNIDENTIFIED = "from before the recording"
"""The name of a chunk that existed before and of which only the size is known."""


@dataclass(frozen=True)
class GraphNames:
    """What the program's graph says about its nodes; if it is empty, layers and kinds are guessed from names."""

    nodes: Mapping[str, Owner] = field(default_factory=dict)
    layers: frozenset[str] = frozenset()
    input_bytes: frozenset[int] = frozenset()
    """Sizes of the tensors of one batch that the step takes from a dataset."""
    blocks: Mapping[int, tuple[Owner, ...]] = field(default_factory=dict)
    """The values in the temporary block of a compiled step, by the size of the block."""
    source_of: Callable[[str], str | None] | None = None


def owners_of(chunk: RecordedChunk, names: GraphNames) -> list[Owner]:
    """Return the owners of a chunk: one, or one for each value in a block that XLA allocated."""
    parts = names.blocks.get(chunk.requested)
    known = Owner(bytes=chunk.allocated, requested_bytes=chunk.requested, address=chunk.address)
    if chunk.owner is None and parts is not None:
        return split_block(known, parts)
    return [_identify(known, chunk, names)]


def _identify(known: Owner, chunk: RecordedChunk, names: GraphNames) -> Owner:
    owner, node = chunk.owner, chunk.operation
    if owner is not None:
        op = "Variable" if owner.kind != "input" else "_Arg"
        found = Owner(owner.name, op, owner.layer, owner.kind, owner.dtype, owner.shape)
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
