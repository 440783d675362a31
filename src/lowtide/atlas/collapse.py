"""Scopes as single boxes: whatever lies deeper than so many scopes becomes one box for each of them."""

from __future__ import annotations

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.cut import Cut, Folding, Numbers, Places, plain
from lowtide.errors import LowtideError


def collapse(cut: Cut, depth: int) -> Cut:
    """One box for each scope at a depth, with all that is in it; edges between boxes are bundled."""
    if depth < 1:
        raise LowtideError("scopes begin at depth 1", given=depth, cure="give 1 or more")
    folding = fold(plain(cut), depth)
    edges = cut.edges.renamed(folding.box)
    bundled = edges.where(edges.source != edges.target).bundled()
    inner = int(edges.count.sum() - bundled.count.sum())
    scopes = int(np.count_nonzero(folding.is_scope))
    note = f"scopes at depth {depth} are one box each: {scopes:,} of them, with {inner:,} edges inside"
    return Cut(cut.atlas, cut.nodes, bundled, folding, (*cut.notes, note))


def fold(cut: Cut, depth: int) -> Folding:
    """Which box each node lies in; a scope of which one node was chosen is that node."""
    atlas = cut.atlas
    scope = _scopes_at(atlas, depth)[atlas.scope[cut.nodes]]
    is_deep = atlas.column("scope_depth")[atlas.scope[cut.nodes]] >= depth
    # Nodes of one scope stand together, so a box is new where the scope changes, or there is none.
    is_new = np.ones(len(scope), np.bool_)
    is_new[1:] = ~is_deep[1:] | ~is_deep[:-1] | (scope[1:] != scope[:-1])
    box: Numbers = (np.cumsum(is_new) - 1).astype(np.int32)
    is_scope = is_deep[is_new] & (np.bincount(box, minlength=int(np.count_nonzero(is_new))) > 1)
    return Folding(box, is_scope, scope[is_new])


def count_boxes(cut: Cut, depth: int) -> int:
    """How many boxes there would be."""
    return len(fold(cut, depth).is_scope)


def _scopes_at(atlas: Atlas, depth: int) -> Places:
    """Of each scope the one at a depth that it lies in; a scope above that depth is itself."""
    level = atlas.column("scope_depth")
    own = np.arange(len(level))
    # All within a scope stands behind it, up to the next one that is not deeper.
    starts = np.where(level <= depth, own, 0)
    found: Places = np.maximum.accumulate(starts)
    return found
