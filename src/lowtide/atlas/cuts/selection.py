"""Selections: by sample, op, scope, neighbourhood or phase. Each takes a Cut and returns one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.cuts.cut import Cut, keep_nodes, require_ungrouped
from lowtide.atlas.index.arrays import Hashes, Mask, csr_entries, run_starts
from lowtide.atlas.index.phases import FORWARD
from lowtide.atlas.index.references import CONTROL
from lowtide.atlas.index.text import hash_text
from lowtide.atlas.suggestions import suggest_names, suggest_ops, suggest_scopes
from lowtide.errors import LowtideError
from lowtide.units import format_count

CONSTANTS = ("Const", "HostConst")
# Ops that return their input.
PASS_THROUGH = ("Identity", "StopGradient", "CheckNumerics")
# Ops whose outputs may be dead: an Identity after them anchors control edges of the branch.
_BRANCHES = ("Switch", "RefSwitch", "_SwitchN", "Merge", "Enter", "RefEnter")

_DIGITS = re.compile(r"\d+")


def sample(cut: Cut, every: int) -> Cut:
    """Every Nth node of each kind, beginning with the first, connected through the nodes left out.

    A kind is an op in scopes that differ in numbers only: of `block_0/attn/MatMul`, `block_1/attn/MatMul`, ... every
    Nth block's stays.
    """
    if every < 1:
        raise LowtideError("a sample takes every first, second, third ... node", given=every, cure="give 1 or more")
    require_ungrouped(cut)
    atlas, nodes = cut.atlas, cut.nodes
    kind = _stems(atlas)[atlas.scope[nodes]] + _OP_FACTOR * (atlas.op[nodes].astype(np.uint64) + np.uint64(1))
    order = np.argsort(kind, kind="stable")
    is_first = run_starts(kind[order])
    rank = np.arange(len(order)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    chosen = np.zeros(len(nodes), np.bool_)
    chosen[order] = rank % every == 0
    note = f"of each kind of node one in {every:,}: {_left_out(chosen)}"
    return keep_nodes(cut, chosen, connected=True, note=note)


def with_ops(cut: Cut, ops: Sequence[str], *, connected: bool = True) -> Cut:
    """The nodes of some ops, by default connected through the nodes left out."""
    require_ungrouped(cut)
    atlas = cut.atlas
    unknown = [op for op in ops if op not in atlas.ops]
    if unknown or not ops:
        raise LowtideError("no node has this op", given=", ".join(unknown) or "no op", cure=suggest_ops(atlas, unknown))
    wanted = np.array([op in ops for op in atlas.ops], np.bool_)
    chosen = wanted[atlas.op[cut.nodes]]
    _check_any(chosen, ", ".join(ops))
    return keep_nodes(cut, chosen, connected=connected, note=f"{', '.join(ops)} alone: {_left_out(chosen)}")


def within(cut: Cut, scope: str) -> Cut:
    """The nodes in a scope, in the main graph and in functions, or those of one function by its name."""
    require_ungrouped(cut)
    atlas = cut.atlas
    ranges = _find_ranges(atlas, scope)
    if not ranges:
        raise LowtideError("no scope has this name", given=scope, cure=suggest_scopes(atlas, scope))
    chosen = np.zeros(len(cut.nodes), np.bool_)
    for low, high in ranges:
        begin, end = np.searchsorted(cut.nodes, [low, high])
        chosen[begin:end] = True
    _check_any(chosen, scope)
    return keep_nodes(cut, chosen, note=f"{scope} alone: {_left_out(chosen)}")


def around(cut: Cut, name: str, hops: int) -> Cut:
    """A node and all nodes at most `hops` edges away, in both directions."""
    require_ungrouped(cut)
    if hops < 0:
        raise LowtideError("a distance cannot be negative", given=hops, cure="give 0 or more hops")
    node = find_node(cut.atlas, name)
    place = int(np.searchsorted(cut.nodes, node))
    if place == len(cut.nodes) or cut.nodes[place] != node:
        raise LowtideError("the node was left out before", given=name, cure="choose around it before other cuts")
    edges = cut.edges
    reached = np.zeros(len(cut.nodes), np.bool_)
    reached[place] = True
    for _ in range(hops):
        readers, read = edges.target[reached[edges.source]], edges.source[reached[edges.target]]
        before = np.count_nonzero(reached)
        reached[readers] = reached[read] = True
        if np.count_nonzero(reached) == before:
            break
    centred = replace(cut, centres=(*cut.centres, node))
    return keep_nodes(centred, reached, note=f"{format_count(hops, 'hop')} around {name}: {_left_out(reached)}")


def forward_only(cut: Cut) -> Cut:
    """The forward pass: no gradients, no optimizer, and no pass-through nodes.

    Like TensorFlow's `remove_training_nodes` this removes Identity, StopGradient and CheckNumerics nodes, except those
    with control edges, those without readers (outputs) and those of control flow.
    """
    require_ungrouped(cut)
    forward = cut.atlas.phase[cut.nodes] == FORWARD
    _check_any(forward, "forward only")
    without = keep_nodes(cut, forward)
    spliced = _pass_through_nodes(without)
    note = f"without training: {_left_out(forward)}"
    if spliced.any():
        note += f", and {np.count_nonzero(spliced):,} that only pass on their input"
    return keep_nodes(without, ~spliced, connected=True, note=note)


def without_constants(cut: Cut) -> Cut:
    """All but the constants."""
    require_ungrouped(cut)
    constant = np.array([op in CONSTANTS for op in cut.atlas.ops], np.bool_)
    chosen = ~constant[cut.atlas.op[cut.nodes]]
    _check_any(chosen, "without constants")
    return keep_nodes(cut, chosen, note=f"without constants: {_left_out(chosen)}")


def find_node(atlas: Atlas, name: str) -> int:
    """Find a node by name; also `name:0`, `^name` and `function::name`."""
    function, _, rest = name.rpartition("::")
    rest = re.sub(r":\d+$", "", rest.removeprefix("^"))
    if function:
        parts = [number for number, part in enumerate(atlas.parts) if part == function]
    else:
        parts = list(range(len(atlas.parts)))
    for part in parts:
        node = atlas.find(rest, part)
        if node is not None:
            return node
    raise LowtideError("no node has this name", given=name, cure=suggest_names(atlas, rest))


_OP_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def _stems(atlas: Atlas) -> Hashes:
    """Return a number for each scope that is equal for paths that differ only in digits."""
    texts, which = np.unique(atlas.scope_leaf, return_inverse=True)
    stems = [_DIGITS.sub("#", atlas.text(int(text))) for text in texts]
    numbers = {stem: hash_text(stem) for stem in set(stems)}
    own = np.array([numbers[stem] for stem in stems], np.uint64)[which]
    # Weighted by depth, so that a/b differs from b/a; summed over the ancestors, each of which is a range of scopes.
    own *= np.uint64(2) * atlas.column("scope_depth").astype(np.uint64) + np.uint64(1)
    own[atlas.part_root] = 0
    change = np.zeros(len(own) + 1, np.uint64)
    change[:-1] = own
    np.subtract.at(change, np.arange(len(own)) + atlas.scope_size, own)
    return np.cumsum(change, dtype=np.uint64)[:-1]


def _find_ranges(atlas: Atlas, name: str) -> list[tuple[int, int]]:
    function, _, path = name.rpartition("::")
    path = path.strip("/")
    named = [part for part, each in enumerate(atlas.parts) if part and each == (function or path)]
    if named and not function:
        return [atlas.part_range(part) for part in named]
    parts = named if function else range(len(atlas.parts))
    scopes = [scope for part in parts if (scope := atlas.find_scope(path, part)) is not None]
    return [(int(atlas.scope_first[scope]), int(atlas.scope_last[scope])) for scope in scopes]


def _pass_through_nodes(cut: Cut) -> Mask:
    """Mark the nodes whose readers can read their input instead."""
    atlas, nodes = cut.atlas, cut.nodes
    places, counts = csr_entries(atlas.first_input, nodes)
    candidate = np.array([op in PASS_THROUGH for op in atlas.ops], np.bool_)[atlas.op[nodes]] & (counts == 1)
    alone = np.cumsum(counts)[candidate] - 1
    source, port = atlas.inputs[places[alone]], atlas.input_port[places[alone]]
    is_there = source < len(atlas)
    branch = np.array([op in _BRANCHES for op in atlas.ops], np.bool_)
    source = np.where(is_there, source, 0)
    candidate[candidate] = is_there & (port != CONTROL) & ~branch[atlas.op[source]]
    edges = cut.edges
    is_read, is_awaited = np.zeros(len(nodes), np.bool_), np.zeros(len(nodes), np.bool_)
    is_read[edges.source] = True
    is_awaited[edges.source[edges.control > 0]] = True
    spliced: Mask = candidate & is_read & ~is_awaited
    return spliced


def _left_out(chosen: Mask) -> str:
    kept = int(np.count_nonzero(chosen))
    return f"{len(chosen) - kept:,} of {format_count(len(chosen), 'node')} left out"


def _check_any(chosen: Mask, what: str) -> None:
    if not chosen.any():
        raise LowtideError("no node is left", given=what, cure="choose less narrowly")
