"""Rewire the inputs of kept nodes that read nodes left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.cuts.cut import Cut
from lowtide.atlas.exports.node_patch import WHOLE
from lowtide.atlas.exports.output_shapes import OutputShapes, read_output_shapes
from lowtide.atlas.exports.stand_ins import StandIn, make_stand_ins, missing_stand_ins
from lowtide.atlas.index.arrays import Bytes, Hashes, Indices, Mask, csr_entries
from lowtide.atlas.index.references import CONTROL
from lowtide.units import format_count

# Ops that pass on their first input.
_PASS_THROUGH = ("Identity", "CheckNumerics", "StopGradient", "PreventGradient", "Snapshot")
# Back edges of loops; a path over one would close a cycle, which TensorFlow does not import.
_BACK = "NextIteration"
_LONGEST = 1000


@dataclass(frozen=True)
class Rewiring:
    """The changes to the written nodes, by row, and the stand-ins for outputs that are missing."""

    replaced: dict[int, dict[int, str | None]]
    """By row and position, the replacement of an input; None removes it."""
    added: dict[int, list[str]]
    """By row, the inputs to append."""
    stand_ins: list[StandIn]
    is_changed: Mask
    """Whether each row changes."""
    notes: tuple[str, ...] = ()


def no_rewiring(count: int) -> Rewiring:
    """Return no changes for `count` nodes."""
    return Rewiring({}, {}, [], np.zeros(count, np.bool_))


@dataclass(frozen=True)
class _Inputs:
    """Inputs that read nodes left out: row and position of the input, source node and port."""

    row: Indices
    place: Indices
    source: Indices
    port: Indices

    def where(self, chosen: Mask) -> _Inputs:
        return _Inputs(*(column[chosen] for column in self.columns()))

    def columns(self) -> tuple[Indices, Indices, Indices, Indices]:
        return self.row, self.place, self.source, self.port


@dataclass(frozen=True)
class _Wires:
    """Inputs with their new sources, and the remaining paths, which become control edges."""

    inputs: _Inputs
    source: Indices
    port: Indices
    left: _Inputs
    """Inputs without a new source."""
    wait_row: Indices
    wait_source: Indices


def rewire(cut: Cut, nodes: Indices, data: Bytes) -> Rewiring:
    """Find the replacement of every input of `nodes` that reads a node outside of them."""
    atlas = cut.atlas
    kept = np.zeros(len(atlas) + 1, np.bool_)
    kept[nodes] = True
    gone = _gone_inputs(atlas, nodes, kept)
    awaited, read = gone.where(gone.port == CONTROL), gone.where(gone.port != CONTROL)
    paths = _paths(cut, nodes)
    looked_at = np.concatenate([read.source[read.source < len(atlas)], paths[0]])
    shapes = read_output_shapes(atlas, data, np.unique(looked_at))
    wires = _find_wires(atlas, shapes, kept, read, paths)
    is_missing = wires.left.source == len(atlas)
    missing, known = wires.left.where(is_missing), wires.left.where(~is_missing)
    stand_ins, names = make_stand_ins(atlas, data, shapes, known.source, known.port, nodes[known.row])
    stand_ins += missing_stand_ins(atlas, missing.place, nodes[missing.row])
    texts = _names(atlas, np.concatenate([wires.source, wires.wait_source]))
    renamed = known.where(known.port > 0)
    replaced: dict[int, dict[int, str | None]] = {}
    for inputs, becomes in (
        (awaited, [None] * len(awaited.row)),
        (wires.inputs, [_input(texts[node], port) for node, port in _pairs(wires.source, wires.port)]),
        (renamed, [names[pair] for pair in _pairs(renamed.source, renamed.port)]),
    ):
        for (row, place), text in zip(_pairs(inputs.row, inputs.place), becomes, strict=True):
            replaced.setdefault(row, {})[place] = text
    added: dict[int, list[str]] = {}
    for row, node in _pairs(wires.wait_row, wires.wait_source):
        added.setdefault(row, []).append(f"^{texts[node]}")
    is_changed = np.zeros(len(nodes), np.bool_)
    is_changed[[*replaced, *added]] = True
    notes = _rewiring_notes(len(wires.source), stand_ins, len(wires.wait_row))
    return Rewiring(replaced, added, stand_ins, is_changed, notes)


def _find_wires(
    atlas: Atlas, shapes: OutputShapes, kept: Mask, read: _Inputs, paths: tuple[Indices, Indices]
) -> _Wires:
    """Find new sources: through pass-through nodes, or an upstream kept node with the same dtype and shape."""
    path_source, path_row = paths
    source, port = _trace_back(atlas, kept, read)
    is_handed = kept[source]
    rest = read.where(~is_handed)
    match = _matching(atlas, shapes, rest, path_source, path_row)
    is_matched = match < len(atlas)
    handed, matched = read.where(is_handed), rest.where(is_matched)
    inputs = _Inputs(*(np.concatenate(pair) for pair in zip(handed.columns(), matched.columns(), strict=True)))
    new_source = np.concatenate([source[is_handed], match[is_matched]])
    new_port = np.concatenate([port[is_handed], np.zeros(len(matched.row), np.int64)])
    is_joined = np.isin(path_row * len(kept) + path_source, inputs.row * len(kept) + new_source)
    return _Wires(inputs, new_source, new_port, rest.where(~is_matched), path_row[~is_joined], path_source[~is_joined])


def _gone_inputs(atlas: Atlas, nodes: Indices, kept: Mask) -> _Inputs:
    places, counts = csr_entries(atlas.first_input, nodes)
    source = np.minimum(atlas.inputs[places], len(atlas)).astype(np.int64)
    row = np.repeat(np.arange(len(nodes)), counts)
    place = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    return _Inputs(row, place, source, atlas.input_port[places].astype(np.int64)).where(~kept[source])


def _trace_back(atlas: Atlas, kept: Mask, read: _Inputs) -> tuple[Indices, Indices]:
    """Follow each input back through pass-through nodes; return its source and port."""
    hands_on = np.append(np.array([op in _PASS_THROUGH for op in atlas.ops], np.bool_)[atlas.op], False)
    source, port = read.source.copy(), read.port.copy()
    for _ in range(_LONGEST):
        active = np.flatnonzero(~kept[source] & hands_on[source])
        first = atlas.first_input[source[active]]
        has_input = first < atlas.first_input[source[active] + 1]
        active, first = active[has_input], first[has_input]
        is_data = atlas.input_port[first] != CONTROL
        active, first = active[is_data], first[is_data]
        if not len(active):
            break
        source[active] = np.minimum(atlas.inputs[first], len(atlas))
        port[active] = atlas.input_port[first]
    return source, port


def _paths(cut: Cut, nodes: Indices) -> tuple[Indices, Indices]:
    """Return the contracted paths: source node and target row."""
    atlas, edges = cut.atlas, cut.edges
    through = np.flatnonzero(edges.is_through)
    source, target = cut.nodes[edges.source[through]], cut.nodes[edges.target[through]]
    inside = (source >= nodes[0]) & (source <= nodes[-1]) & (target >= nodes[0]) & (target <= nodes[-1])
    if _BACK in atlas.ops:
        inside &= atlas.position[source] < atlas.position[target]
    source, target = source[inside], target[inside]
    return source, np.searchsorted(nodes, target)


def _matching(atlas: Atlas, shapes: OutputShapes, rest: _Inputs, path_source: Indices, path_row: Indices) -> Indices:
    """Find for each input an upstream kept node whose first output has the same dtype and shape.

    Integers are sizes, axes and indices, whose values TensorFlow checks against shapes. A node without inputs, such as
    a constant, has no node before it.
    """
    none = len(atlas)
    found = np.full(len(rest.row), none, np.int64)
    wanted = np.flatnonzero((rest.port == 0) & (rest.source < none))
    source = rest.source[wanted]
    has_inputs = atlas.first_input[source] < atlas.first_input[source + 1]
    wanted = wanted[has_inputs & ~np.isin(atlas.dtype[source], WHOLE)]
    wanted = wanted[shapes.is_complete(rest.source[wanted])]
    offered = np.flatnonzero(shapes.is_complete(path_source))
    if not len(wanted) or not len(offered):
        return found
    keys = _keys(atlas, shapes, path_row[offered], path_source[offered])
    order = np.argsort(keys, kind="stable")
    asked = _keys(atlas, shapes, rest.row[wanted], rest.source[wanted])
    place = np.minimum(np.searchsorted(keys[order], asked), len(order) - 1)
    fits = keys[order][place] == asked
    found[wanted[fits]] = path_source[offered[order[place[fits]]]]
    return found


def _keys(atlas: Atlas, shapes: OutputShapes, row: Indices, node: Indices) -> Hashes:
    """Hash row, dtype and shape."""
    dtype = atlas.dtype[node].astype(np.uint64)
    key = (row.astype(np.uint64) << np.uint64(8) | dtype) * np.uint64(0x9E3779B97F4A7C15)
    return key ^ shapes.hash(node)


def _names(atlas: Atlas, nodes: Indices) -> dict[int, str]:
    distinct = np.unique(nodes)
    return dict(zip(distinct.tolist(), atlas.names(distinct), strict=True))


def _pairs(first: Indices, second: Indices) -> list[tuple[int, int]]:
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _input(name: str, port: int) -> str:
    return f"{name}:{port}" if port else name


def _rewiring_notes(rewired: int, stand_ins: list[StandIn], waits: int) -> tuple[str, ...]:
    copies = sum(stand_in.copied is not None for stand_in in stand_ins)
    parts = [
        (rewired, "input reads", "inputs read", "the kept node before"),
        (len(stand_ins) - copies, "placeholder stands", "placeholders stand", "for what was left out"),
        (copies, "small constant is", "small constants are", "kept because shapes depend on values"),
        (waits, "control edge keeps", "control edges keep", "nodes connected"),
    ]
    changes = ", ".join(f"{format_count(count, one, many)} {what}" for count, one, many, what in parts if count)
    return (f"at the cuts {changes}",) if changes else ()
