"""Write the phase of each node: gradients are recognized by name and op, all else by what is computed from what."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lowtide.atlas.index.arrays import Bytes, Column, Indices, Mask
from lowtide.atlas.index.columns import ColumnWriter, open_column
from lowtide.atlas.index.find_phases import find_phases
from lowtide.atlas.index.op_roles import ARGUMENT, GRADIENT, INTEGER, VARIABLE, find_op_roles
from lowtide.atlas.index.phases import FORWARD, PhaseGraph, Phases
from lowtide.atlas.index.text import starting_with
from lowtide.program.dtypes import DTYPES, RESOURCE

# The scopes that gradient tapes and `tf.gradients` of TensorFlow 1 create; a number may follow, as in `gradients_1`.
_GRADIENT_SCOPES = (b"gradient_tape", b"gradients")
# Prefixes of the functions that TensorFlow generates for a backward pass.
_BACKWARD_FUNCTIONS = ("__backward_", "__inference___backward_")

_INTEGERS = [number for number, (name, _) in DTYPES.items() if name.startswith(("int", "uint"))]


def write_phases(writer: ColumnWriter, parts: list[str]) -> None:
    """Write the phase of each node of the main graph (part 0) and of the functions."""
    roles = _find_roles(writer)
    is_named, is_nested = _find_named_gradients(writer, parts)
    is_gradient = is_named | (roles & GRADIENT != 0)
    part_of_call = writer.read("call_part").astype(np.int64)
    is_backward = np.array([name.startswith(_BACKWARD_FUNCTIONS) for name in parts], np.bool_)
    is_gradient[writer.read("call_node")[is_backward[part_of_call]]] = True
    first_input, inputs, ports = (writer.open(name) for name in ("first_input", "input", "input_port"))
    first_reader, readers = writer.open("first_reader"), writer.open("reader")
    phase = find_phases(PhaseGraph(first_input, inputs, ports, first_reader, readers, roles, is_gradient, is_nested))
    _pass_to_functions(phase, writer, part_of_call, len(parts))
    writer.write("phase", phase)


def _find_roles(writer: ColumnWriter) -> Column:
    """Return the roles of each node: those of its op and of the dtype of its first output."""
    content = (writer.folder / "ops").read_bytes()
    ops = [content[low:high].decode(errors="replace") for low, high in pairwise(writer.read("ops_first").tolist())]
    roles = find_op_roles(ops)[writer.open("op")]
    dtype = writer.open("dtype")
    roles[(roles & ARGUMENT != 0) & (dtype == RESOURCE)] |= VARIABLE
    roles[np.isin(dtype, _INTEGERS)] |= INTEGER
    return roles


def _find_named_gradients(writer: ColumnWriter, parts: list[str]) -> tuple[Mask, bool]:
    """Return which nodes are gradients by the name of the node, of a scope around it, or of its function.

    The second value says whether a scope of gradients is within another one.
    """
    leaf, parent, size = (writer.read(name) for name in ("scope_leaf", "scope_parent", "scope_size"))
    texts = open_column(writer.folder / "texts", "|u1")
    first = writer.read("texts_first")
    is_gradient = np.zeros(len(first) - 1, np.bool_)
    for scope in _GRADIENT_SCOPES:
        is_gradient[_named(texts, first[:-1], first[1:], scope)] = True
    tops = np.flatnonzero(is_gradient[leaf] & (parent != np.arange(len(parent))))
    is_nested = bool(_count_around(tops, size)[tops].max(initial=0) > 1)
    backward_parts = [part for part, name in enumerate(parts) if name.startswith(_BACKWARD_FUNCTIONS)]
    tops = np.concatenate([tops, writer.read("part_root")[backward_parts].astype(np.int64)])
    marked = _count_around(tops, size) > 0
    return np.asarray(marked[writer.open("scope")] | is_gradient[writer.open("leaf")]), is_nested


def _count_around(tops: Indices, size: Indices) -> Indices:
    """Return for each scope how many of some scopes contain it or are it."""
    # Each scope is a range: +1 at its start and -1 at its end, summed, give the nesting depth.
    change = np.zeros(len(size) + 1, np.int64)
    np.add.at(change, tops, 1)
    np.add.at(change, tops + size[tops], -1)
    return np.asarray(np.cumsum(change)[:-1])


def _named(texts: Bytes, starts: Indices, ends: Indices, name: bytes) -> Indices:
    """Return which texts are a name, or the name and a number, or the name, a full stop and more."""
    rows = starting_with(texts, starts, ends, name)
    after = starts[rows] + len(name)
    following = texts[np.minimum(after, len(texts) - 1)]
    second = texts[np.minimum(after + 1, len(texts) - 1)]
    is_numbered = (following == ord("_")) & (after + 1 < ends[rows]) & (second >= ord("0")) & (second <= ord("9"))
    return np.asarray(rows[(after == ends[rows]) | (following == ord(".")) | is_numbered])


def _pass_to_functions(phase: Phases, writer: ColumnWriter, part_of_call: Indices, part_count: int) -> None:
    """Give the nodes of each function that is called at least the earliest phase of its callers."""
    caller = writer.read("call_node").astype(np.int64)
    first, last, root = (writer.read(name).astype(np.int64) for name in ("scope_first", "scope_last", "part_root"))
    given = np.full(part_count, FORWARD, np.uint8)
    while len(caller):
        earliest = np.full(part_count, 255, np.uint8)
        np.minimum.at(earliest, part_of_call, phase[caller])
        later = np.flatnonzero((earliest != 255) & (earliest > given))
        if not len(later):
            break
        for part in later.tolist():
            nodes = phase[first[root[part]] : last[root[part]]]
            np.maximum(nodes, earliest[part], out=nodes)
        given[later] = earliest[later]
