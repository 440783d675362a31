"""A Cut: selected nodes of a graph, and the edges between them, some of which are contracted paths.

A cut may be grouped: then a box stands for a whole scope.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.cuts.contraction import MOST_SOURCES, contract_paths
from lowtide.atlas.index.arrays import Indices, Int32s, Mask, csr_entries
from lowtide.atlas.index.phases import PHASES
from lowtide.atlas.index.references import CONTROL
from lowtide.atlas.search import node_bytes
from lowtide.errors import LowtideError
from lowtide.program.dtypes import dtype_name

MIXED = "mixed"

# Boxes described at a time.
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges between boxes, as columns; an entry may be a bundle of several edges and has their sums."""

    source: Int32s
    target: Int32s
    count: Int32s
    control: Int32s
    """The number of control edges."""
    bytes: Indices
    """The bytes carried, where known; 0 for contracted paths."""
    is_through: Mask
    """Whether all edges of the entry are paths through nodes that were left out."""

    def __len__(self) -> int:
        return len(self.source)

    def where(self, chosen: Mask) -> Edges:
        """Return the chosen entries."""
        places = np.flatnonzero(chosen)
        return Edges(*(column[places] for column in self._columns()))

    def renamed(self, place: Int32s) -> Edges:
        """Renumber the boxes."""
        return replace(self, source=place[self.source], target=place[self.target])

    def bundled(self) -> Edges:
        """Return one entry for each pair of boxes, sorted by source."""
        if not len(self):
            return self
        order = np.lexsort((self.target, self.source))
        source, target, count, control, size, through = (column[order] for column in self._columns())
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
        first = np.flatnonzero(is_new)
        return Edges(
            source[first],
            target[first],
            np.add.reduceat(count, first),
            np.add.reduceat(control, first),
            np.add.reduceat(size, first),
            np.logical_and.reduceat(through, first),
        )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the entries."""
        return zip(*(column.tolist() for column in self._columns()), strict=True)

    def _columns(self) -> tuple[npt.NDArray[Any], ...]:
        return (self.source, self.target, self.count, self.control, self.bytes, self.is_through)


@dataclass(frozen=True)
class Grouping:
    """The box of each selected node, and the groups that boxes of several nodes stand for."""

    box: Int32s
    groups: Mapping[int, BoxGroup]
    """By box; a box without an entry is a single node."""
    ungrouped: Cut
    """The cut that was grouped."""


@dataclass(frozen=True)
class BoxGroup:
    """The group of nodes that a box stands for."""

    kind: str
    """scope; or series, cluster or range for folded nodes of one scope"""
    name: str


class Box(NamedTuple):
    """The facts about one box; None where unknown or not the same for all its nodes."""

    name: str
    kind: str
    """node, or the kind of a group"""
    op: str | None
    dtype: str | None
    device: str | None
    phase: str
    """forward, backward, optimizer, or mixed"""
    nodes: int
    bytes: int
    """The known bytes of the outputs of its nodes."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The bundle of all edges from one box to another."""

    source: int
    target: int
    count: int
    control: int
    bytes: int | None
    """None for a path through nodes that were left out."""
    through: bool


@dataclass(frozen=True)
class Cut:
    """Some nodes of an atlas; `notes` say what each selection left out."""

    atlas: Atlas
    nodes: Indices
    """In ascending order."""
    own_edges: Edges | None = None
    """None for the subgraph induced by the selected nodes."""
    grouping: Grouping | None = None
    notes: tuple[str, ...] = ()
    centres: tuple[int, ...] = ()
    """The nodes around which others were selected; drawings emphasize them."""

    def __len__(self) -> int:
        return len(self.nodes) if self.grouping is None else int(self.grouping.box.max()) + 1

    @cached_property
    def edges(self) -> Edges:
        """The edges between the boxes."""
        return _edges_of_file(self.atlas, self.nodes) if self.own_edges is None else self.own_edges

    @cached_property
    def first(self) -> Indices:
        """The first node of each box."""
        if self.grouping is None:
            return self.nodes
        return self.nodes[np.unique(self.grouping.box, return_index=True)[1]]

    @cached_property
    def sizes(self) -> Indices:
        """The number of nodes of each box."""
        return np.ones(len(self), np.int64) if self.grouping is None else np.bincount(self.grouping.box)

    @cached_property
    def bytes(self) -> Indices:
        """The bytes of the outputs of each box."""
        each = node_bytes(self.atlas)[self.nodes]
        if self.grouping is None:
            return each
        total = np.zeros(len(self), np.int64)
        np.add.at(total, self.grouping.box, each)
        return total

    @property
    def centre_boxes(self) -> frozenset[int]:
        """The boxes of the centres that are still selected."""
        places = np.flatnonzero(np.isin(self.nodes, self.centres))
        return frozenset((places if self.grouping is None else self.grouping.box[places]).tolist())

    def boxes(self) -> Iterator[Box]:
        """Yield the boxes, in order."""
        for start in range(0, len(self), _CHUNK):
            yield from self._some_boxes(start, min(start + _CHUNK, len(self)))

    def bundles(self) -> Iterator[Edge]:
        """The bundles of edges, sorted by source."""
        for source, target, count, control, size, through in self.edges.bundled().rows():
            yield Edge(source, target, count, control, None if through else size, through)

    def names(self) -> list[str]:
        """The name of each box, `function::name` for nodes of a function."""
        return [name for low in range(0, len(self), _CHUNK) for name in self._names(low, low + _CHUNK)]

    def _some_boxes(self, low: int, high: int) -> Iterator[Box]:
        atlas, first = self.atlas, self.first[low:high]
        ops, devices = atlas.ops, atlas.devices
        groups = {} if self.grouping is None else self.grouping.groups
        columns = zip(
            range(low, high),
            self._names(low, high),
            atlas.op[first].tolist(),
            atlas.dtype[first].tolist(),
            atlas.device[first].tolist(),
            self._phases[low:high].tolist(),
            self.sizes[low:high].tolist(),
            self.bytes[low:high].tolist(),
            strict=True,
        )
        for box, name, op, dtype, device, phase, nodes, size in columns:
            if box in groups:
                yield Box(name, groups[box].kind, None, None, None, _PHASE_NAMES[phase], nodes, size)
            else:
                known = dtype_name(dtype) if dtype else None
                yield Box(name, "node", ops[op], known, devices[device] or None, _PHASE_NAMES[phase], 1, size)

    def _names(self, low: int, high: int) -> list[str]:
        first = self.first[low:high]
        names = self.atlas.names(first)
        if len(self.atlas.parts) > 1:
            parts = find_parts(self.atlas, first).tolist()
            names = [qualified_name(self.atlas, part, name) for part, name in zip(parts, names, strict=True)]
        if self.grouping is None:
            return names
        groups = self.grouping.groups
        return [groups[box].name if box in groups else name for box, name in enumerate(names, low)]

    @cached_property
    def _phases(self) -> npt.NDArray[np.uint8]:
        phase = self.atlas.phase[self.nodes]
        if self.grouping is None:
            return phase
        lowest, highest = np.full(len(self), 255, np.uint8), np.zeros(len(self), np.uint8)
        np.minimum.at(lowest, self.grouping.box, phase)
        np.maximum.at(highest, self.grouping.box, phase)
        return np.where(lowest == highest, lowest, len(PHASES)).astype(np.uint8)


_PHASE_NAMES = (*PHASES, MIXED)


def whole_graph(atlas: Atlas) -> Cut:
    """Return the cut of all nodes, functions included."""
    return Cut(atlas, np.arange(len(atlas)))


def keep_nodes(cut: Cut, chosen: Mask, *, connected: bool = False, note: str | None = None) -> Cut:
    """Return the chosen nodes. If `connected`, paths through the nodes left out become edges (contraction)."""
    require_ungrouped(cut)
    notes = cut.notes if note is None else (*cut.notes, note)
    if chosen.all():
        return replace(cut, notes=notes)
    nodes = cut.nodes[chosen]
    if cut.own_edges is None and not connected:
        return Cut(cut.atlas, nodes, notes=notes, centres=cut.centres)
    edges = cut.edges
    remaining = edges.where(chosen[edges.source] & chosen[edges.target])
    if connected:
        paths = contract_paths(edges.source, edges.target, chosen)
        remaining = _with_paths(remaining, paths.source, paths.target, len(chosen))
        if paths.crowded:
            verb = "has" if paths.crowded == 1 else "have"
            crowded = f"{paths.crowded:,} of the nodes left out {verb} more than {MOST_SOURCES} kept ones before them"
            notes = (*notes, f"{crowded}: the nearest {MOST_SOURCES} stay connected")
    place = (np.cumsum(chosen) - 1).astype(np.int32)
    return Cut(cut.atlas, nodes, remaining.renamed(place), notes=notes, centres=cut.centres)


def require_ungrouped(cut: Cut) -> Cut:
    """Return the cut; raise an error if it is grouped, because boxes of scopes cannot be selected like nodes."""
    if cut.grouping is not None:
        raise LowtideError("a collapsed graph cannot be cut further", cure="collapse it in the end")
    return cut


def qualified_name(atlas: Atlas, part: int, name: str) -> str:
    """Prefix a name with its function, if it is in one."""
    return f"{atlas.parts[part]}::{name}" if part else name


def find_parts(atlas: Atlas, nodes: Indices) -> Indices:
    """Return the part of each node."""
    part: Indices = np.searchsorted(atlas.part_root, atlas.scope[nodes], side="right") - 1
    return part


def _edges_of_file(atlas: Atlas, nodes: Indices) -> Edges:
    """Return the edges of the subgraph induced by some nodes."""
    places, counts = csr_entries(atlas.first_input, nodes)
    absent = len(nodes)
    place = np.full(len(atlas) + 1, absent, np.int32)
    place[nodes] = np.arange(absent, dtype=np.int32)
    # MISSING is larger than every node number.
    sources = np.minimum(atlas.inputs[places], len(atlas))
    source = place[sources]
    inside = np.flatnonzero(source != absent)
    target = np.repeat(np.arange(absent, dtype=np.int32), counts)[inside]
    source, sources, ports = source[inside], sources[inside], atlas.input_port[places[inside]]
    size = atlas.edge_bytes(sources, ports)
    control = (ports == CONTROL).astype(np.int32)
    return Edges(source, target, np.ones(len(source), np.int32), control, size, np.zeros(len(source), np.bool_))


def _with_paths(edges: Edges, source: Int32s, target: Int32s, count: int) -> Edges:
    """Add an edge for each path between boxes that have no edge."""
    known = np.unique(edges.source.astype(np.int64) * count + edges.target)
    fresh = ~np.isin(source.astype(np.int64) * count + target, known)
    source, target = source[fresh], target[fresh]
    return Edges(
        np.concatenate([edges.source, source]),
        np.concatenate([edges.target, target]),
        np.concatenate([edges.count, np.ones(len(source), np.int32)]),
        np.concatenate([edges.control, np.zeros(len(source), np.int32)]),
        np.concatenate([edges.bytes, np.zeros(len(source), np.int64)]),
        np.concatenate([edges.is_through, np.ones(len(source), np.bool_)]),
    )
