"""Collapse scopes: each scope at a given depth becomes one box."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.cuts.cut import BoxGroup, Cut, Grouping, find_parts, qualified_name, require_ungrouped
from lowtide.atlas.index.arrays import Indices, Int32s, Mask
from lowtide.atlas.screens.folding import fold_members
from lowtide.atlas.screens.scope_entries import ScopeEntries
from lowtide.atlas.screens.screen import fold_label
from lowtide.errors import LowtideError
from lowtide.units import format_count


def collapse(cut: Cut, depth: int) -> Cut:
    """Return one box for each scope at a depth; edges between boxes are bundled."""
    if depth < 1:
        raise LowtideError("scopes begin at depth 1", given=depth, cure="give 1 or more")
    atlas = require_ungrouped(cut).atlas
    scope, is_new = _borders(cut, depth)
    box: Int32s = (np.cumsum(is_new) - 1).astype(np.int32)
    several = np.flatnonzero(np.bincount(box) > 1)
    scopes = scope[is_new][several].tolist()
    parts = find_parts(atlas, cut.nodes[is_new][several]).tolist()
    groups = {
        each: BoxGroup("scope", qualified_name(atlas, part, atlas.scope_name(scope)))
        for each, scope, part in zip(several.tolist(), scopes, parts, strict=True)
    }
    return _grouped(
        cut, Grouping(box, groups, cut), f"scopes at depth {depth} are one box each: {len(groups):,} of them"
    )


def collapse_to_fit(cut: Cut, most: int, overview: int) -> Cut:
    """Return the cut if it has at most `most` boxes, else an overview with collapsed scopes or folded nodes.

    A cut that is already collapsed is collapsed at the largest depth that fits, with a note.
    """
    if len(cut) <= most:
        return cut
    if cut.grouping is None:
        return _make_overview(cut, most, overview)
    fitting = _make_overview(replace(cut.grouping.ungrouped, notes=cut.notes), most, most)
    too_many = f"{len(cut):,} boxes are too many to draw, so the picture is collapsed further"
    return replace(fitting, notes=(*cut.notes, too_many, *fitting.notes[len(cut.notes) :]))


def _make_overview(cut: Cut, most: int, wanted: int) -> Cut:
    """Collapse scopes at the largest depth with at most `wanted` boxes; fold nodes if there is none."""
    deepest = int(cut.atlas.column("scope_depth").max())
    best = 0
    for depth in range(1, deepest + 1):
        if int(np.count_nonzero(_borders(cut, depth)[1])) > wanted:
            break
        best = depth
    folded = collapse(cut, best) if best else _folded(cut)
    if len(folded) > most:
        part = find_parts(cut.atlas, cut.nodes)
        largest = cut.atlas.parts[int(np.bincount(part[part > 0]).argmax())]
        raise LowtideError(
            f"{len(folded):,} functions are too many to draw", cure=f"choose one of them as the scope: {largest}"
        )
    return folded


def _folded(cut: Cut) -> Cut:
    """Fold the largest part by names and ops; each other part becomes one box."""
    atlas = cut.atlas
    part = find_parts(atlas, cut.nodes)
    largest = int(np.bincount(part).argmax())
    others = np.unique(part[part != largest])
    box = np.searchsorted(others, part).astype(np.int32)
    groups = {number: BoxGroup("function", atlas.parts[each] or "the main graph") for number, each in enumerate(others)}
    for number, fold in enumerate(fold_members(_chosen_members(cut, largest)), len(others)):
        inside = _inside(cut.nodes, fold.members)
        box[inside] = number
        is_scope = len(fold.members) == 1
        name = fold.members.name(0) if is_scope else fold_label(fold)
        groups[number] = BoxGroup("scope" if is_scope else fold.kind, qualified_name(atlas, largest, name))
    # Boxes are numbered in the order of their first nodes; a box with a single node is that node.
    _, first, sizes = np.unique(box, return_index=True, return_counts=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first), dtype=np.int32)
    renamed = {int(rank[each]): group for each, group in groups.items() if sizes[each] > 1}
    return _grouped(
        cut,
        Grouping(rank[box], renamed, cut),
        f"{format_count(len(cut), 'node is', 'nodes are')} folded into {format_count(len(first), 'box')}",
    )


def _grouped(cut: Cut, grouping: Grouping, note: str) -> Cut:
    edges = cut.edges.renamed(grouping.box)
    bundled = edges.where(edges.source != edges.target).bundled()
    inner = int(edges.count.sum() - bundled.count.sum())
    notes = (*cut.notes, f"{note}, with {format_count(inner, 'edge')} inside")
    return Cut(cut.atlas, cut.nodes, bundled, grouping, notes, cut.centres)


def _borders(cut: Cut, depth: int) -> tuple[Indices, Mask]:
    """Return the scope at a depth around each node, and a mask of the first node of each box."""
    atlas = cut.atlas
    own = atlas.scope[cut.nodes]
    scope = _scopes_at(atlas, depth)[own]
    is_deep = atlas.column("scope_depth")[own] >= depth
    # Nodes of one scope are adjacent; a node above the depth is a separate box.
    is_new = np.ones(len(scope), np.bool_)
    is_new[1:] = ~is_deep[1:] | ~is_deep[:-1] | (scope[1:] != scope[:-1])
    return scope, is_new


def _scopes_at(atlas: Atlas, depth: int) -> Indices:
    """Return the ancestor at a depth of each scope; a scope above that depth is its own."""
    level = atlas.column("scope_depth")
    # The scopes within a scope follow it, up to the next one that is not deeper.
    found: Indices = np.maximum.accumulate(np.where(level <= depth, np.arange(len(level)), 0))
    return found


def _chosen_members(cut: Cut, part: int) -> ScopeEntries:
    """Return the entries of a part's root that contain selected nodes."""
    members = ScopeEntries.of(cut.atlas, int(cut.atlas.part_root[part]))
    low, high = np.searchsorted(cut.nodes, members.first), np.searchsorted(cut.nodes, members.last)
    return members.take(low < high)


def _inside(nodes: Indices, members: ScopeEntries) -> Mask:
    """Mark the nodes that are in one of the entries."""
    change = np.zeros(len(nodes) + 1, np.int64)
    np.add.at(change, np.searchsorted(nodes, members.first), 1)
    np.add.at(change, np.searchsorted(nodes, members.last), -1)
    return np.cumsum(change)[:-1] > 0
