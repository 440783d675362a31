"""The owners of recorded chunks, named with the program's graph: layers, kinds, and the contents of XLA's blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lowtide.run.chunks import RecordedChunk
from lowtide.run.eager_ops import is_function
from lowtide.tide.kinds import OUTSIDE
from lowtide.tide.layers import find_layer, traced_node, without_number
from lowtide.tide.owner import Owner
from lowtide.tide.rows import split_block

# What TensorFlow adds to the name of a node whose value it computed when it created the executor.
_FOLDED = re.compile(r"/_\d+__cf__\d+$")
# What a variable of version 1 adds to its name for its initial value, and for the assignment of it.
_INITIAL = re.compile(r"/(?:Initializer(?:/.*)?|initial_value|Assign)$")
# The last part of the name of a slot variable of version 1, with its number; Adam counts in the powers of its betas.
_SLOT = re.compile(r"(?:^|/)(?:Adam|AdaMax|Adagrad|Adadelta|Momentum|RMSProp|Ftrl|Nadam|beta[12]_power)(?:_\d+)?$")
# Scopes of gradient nodes, by a tape and in TensorFlow 1.
_BACKWARD, _GRADIENTS = "gradient_tape/", "gradients"
NO_OP = "unknown"
"""The op of a chunk that was allocated while no op ran, mostly an array from Python."""
UNIDENTIFIED = "from before the recording"
"""The name of a chunk that existed before and of which only the size is known."""
ARRAY = "array from Python"
"""The name of a chunk that was allocated while no op ran, where Python has no name for it."""
UNNAMED = (UNIDENTIFIED, ARRAY)


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
    owner, node, made_by = chunk.owner, chunk.operation, chunk.made_by
    if owner is not None and owner.kind == OUTSIDE:
        op = NO_OP if node is None else (names.nodes.get(node) or _owner_by_name(node, names.layers, made_by)).op
        found = Owner(owner.name, op, None, "other", owner.dtype, owner.shape, source=owner.source)
    elif owner is not None:
        # The value of a captured tensor is a constant of the step.
        op = {"input": "_Arg", "constants": "Const"}.get(owner.kind or "", "Variable")
        found = Owner(owner.name, op, owner.layer, owner.kind, owner.dtype, owner.shape, source=owner.source)
    elif not chunk.identified:
        found = Owner(UNIDENTIFIED, NO_OP, None, "other", "uint8")
    elif made_by is not None and not is_function(made_by):
        found = _eager_owner(chunk, made_by)
    elif node is not None and node not in names.nodes and (known_by_name := _constant_or_variable(node)) is not None:
        found = replace(known_by_name, dtype=chunk.dtype, shape=chunk.shape)
    elif chunk.requested in names.input_bytes and (node is None or node not in names.nodes):
        found = Owner("batch", node or "data set", None, "input", chunk.dtype, chunk.shape)
    elif node is None:
        found = Owner(ARRAY, NO_OP, None, "other", chunk.dtype, chunk.shape)
    else:
        fact = names.nodes.get(node) or _owner_by_name(node, names.layers, made_by)
        name, op = traced_node(node, fact.op or NO_OP)
        if chunk.region == "temp":
            # The handle of a variable exists as long as the variable.
            kind = "other" if op == "VarHandleOp" else "workspace"
            found = Owner(name, op, fact.layer, kind, chunk.dtype, chunk.shape, source=fact.source)
        else:
            found = Owner(f"{name}:0", op, fact.layer, fact.kind, chunk.dtype, chunk.shape, source=fact.source)
    return replace(
        found,
        dtype=found.dtype or "uint8",
        bytes=known.bytes,
        requested_bytes=known.requested_bytes,
        address=known.address,
    )


def _constant_or_variable(node: str) -> Owner | None:
    """Return the constant that TensorFlow folded, or the variable of a session's graph, that a node's name refers to.

    A variable of version 1 takes over the buffer of its initial value, or of its first assignment.
    """
    if match := _FOLDED.search(node):
        return Owner(node[: match.start()] + ":0", "Const", None, "constants")
    match = _INITIAL.search(node)
    if match is None:
        return None
    variable = node[: match.start()]
    return Owner(variable, "Variable", None, "optimizer" if _SLOT.search(variable) else "weights")


def _eager_owner(chunk: RecordedChunk, made_by: Owner) -> Owner:
    """Return what is known of a chunk that an eager op allocated."""
    if chunk.operation is None:
        # The op was called with a NumPy array or a list, which is copied before the op runs.
        return Owner(
            "array from Python", NO_OP, made_by.layer, "input", chunk.dtype, chunk.shape, source=made_by.source
        )
    is_temporary = chunk.region == "temp" and made_by.op != "VarHandleOp"
    kind = "workspace" if is_temporary else made_by.kind
    op, name = chunk.operation.rpartition("/")[2], chunk.operation if is_temporary else f"{chunk.operation}:0"
    return Owner(name, op, made_by.layer, kind, chunk.dtype, chunk.shape, source=made_by.source)


def _owner_by_name(node: str, layers: frozenset[str], call: Owner | None) -> Owner:
    """Return what the name of a node says, where the graph does not have it or is not known.

    `call` is the call of the node's function in an eager step, if it was one.
    """
    layer = find_layer(node, layers) if layers else None
    op = without_number(node.rpartition("/")[2])
    source = None if call is None else call.source
    if _BACKWARD in node or _GRADIENTS in node.split("/")[:-1]:
        return Owner(op=op, layer=layer, kind="gradients", source=source)
    if call is not None:
        return Owner(op=op, layer=layer or call.layer, kind=call.kind, source=source)
    return Owner(op=op, layer=layer, kind="activations" if layer is not None else "other")
