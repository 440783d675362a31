"""Counts of a graph or a cut by op, phase, dtype, device, function and scope."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.cuts.cut import Cut, find_parts, qualified_name
from lowtide.atlas.index.arrays import Indices, offsets
from lowtide.atlas.index.phases import PHASES
from lowtide.atlas.search import node_bytes
from lowtide.program.dtypes import dtype_name

SCHEMA_VERSION = 1

# A scope with more than this share of the nodes is replaced by the scopes within it.
_ALL = 0.9


@dataclass(frozen=True)
class Share:
    """The number of nodes with a property, and the bytes of their outputs."""

    name: str
    nodes: int
    bytes: int


@dataclass(frozen=True)
class Deepest:
    """The scope with the greatest depth."""

    name: str
    depth: int


@dataclass(frozen=True)
class Stats:
    """The counts; each list is sorted in descending order."""

    nodes: int
    boxes: int
    """The number of nodes, unless scopes are collapsed."""
    edges: int
    edges_through: int
    """The number of edges that are paths through nodes left out."""
    bytes: int
    ops: tuple[Share, ...]
    phases: tuple[Share, ...]
    dtypes: tuple[Share, ...]
    devices: tuple[Share, ...]
    functions: tuple[Share, ...]
    """Functions of the library with selected nodes."""
    scopes: tuple[Share, ...]
    """The outermost scopes that divide the nodes."""
    deepest: Deepest | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as in the JSON of the command line."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def count(cut: Cut) -> Stats:
    """Count the nodes and edges of a cut."""
    atlas, nodes = cut.atlas, cut.nodes
    size = node_bytes(atlas)[nodes]
    edges = cut.edges
    part = find_parts(atlas, nodes)
    functions = [share for share in _shares(atlas.parts, part, size) if share.name]
    scopes, deepest = _scopes(cut, size, int(np.bincount(part).argmax()))
    return Stats(
        nodes=len(nodes),
        boxes=len(cut),
        edges=int(edges.count.sum()),
        edges_through=int(edges.count[edges.is_through].sum()),
        bytes=int(size.sum()),
        ops=_shares(atlas.ops, atlas.op[nodes], size),
        phases=_shares(list(PHASES), atlas.phase[nodes], size),
        dtypes=_shares(["unknown", *map(dtype_name, range(1, 256))], atlas.dtype[nodes], size),
        devices=_shares([device or "none" for device in atlas.devices], atlas.device[nodes], size),
        functions=tuple(functions),
        scopes=scopes,
        deepest=deepest,
    )


def _shares(names: list[str], which: Indices, size: Indices) -> tuple[Share, ...]:
    counts = np.bincount(which, minlength=len(names))
    total = np.zeros(len(names), np.int64)
    np.add.at(total, which, size)
    order = np.lexsort((np.arange(len(names)), -counts))
    return tuple(Share(names[row], int(counts[row]), int(total[row])) for row in order if counts[row])


def _scopes(cut: Cut, size: Indices, part: int) -> tuple[tuple[Share, ...], Deepest | None]:
    """Return the scopes that divide the largest part, and the deepest scope."""
    atlas = cut.atlas
    low, high = (np.searchsorted(cut.nodes, column) for column in (atlas.scope_first, atlas.scope_last))
    counts = high - low
    total = offsets(size)
    scope = int(atlas.part_root[part])
    children = _filled(atlas, scope, counts)
    while len(children) and counts[children].max() > _ALL * counts[scope]:
        inner = int(children[counts[children].argmax()])
        below = _filled(atlas, inner, counts)
        if not len(below):
            break
        scope, children = inner, below
    children = children[np.argsort(-counts[children], kind="stable")]
    names = [qualified_name(atlas, part, atlas.scope_name(int(child))) for child in children]
    rows = zip(names, counts[children].tolist(), (total[high] - total[low])[children].tolist(), strict=True)
    return tuple(Share(*row) for row in rows), _deepest(atlas, counts)


def _filled(atlas: Atlas, scope: int, counts: Indices) -> Indices:
    children = atlas.children(scope)
    return children[counts[children] > 0]


def _deepest(atlas: Atlas, counts: Indices) -> Deepest | None:
    depth = np.where(counts > 0, atlas.column("scope_depth"), 0)
    scope = int(depth.argmax())
    if not depth[scope]:
        return None
    return Deepest(qualified_name(atlas, atlas.part_of_scope(scope), atlas.scope_name(scope)), int(depth[scope]))
