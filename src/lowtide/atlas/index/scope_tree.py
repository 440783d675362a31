"""The tree of name scopes in depth-first order, so that all that lies in a scope is one range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowtide.atlas.index.columns import csr_entries, offsets

# No graph has as many scopes as would need more; a scope takes a few dozen bytes while they are ordered.
Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ScopeTree:
    """A forest of scopes: `place[s]` is the place of scope `s` in depth-first order, and `size` counts its scopes."""

    place: Int32s
    size: Int32s
    """By scope as numbered before, itself included."""
    depth: Int32s


def depth_first(parent: npt.NDArray[np.uint32], roots: npt.NDArray[np.int64], node: Int32s) -> ScopeTree:
    """Order scopes whose parents are numbered before them; siblings by `node`, the first node directly in each."""
    count = len(parent)
    is_root = np.zeros(count, np.bool_)
    is_root[roots] = True
    inner = np.flatnonzero(~is_root).astype(np.int32)
    first = offsets(np.bincount(parent[inner], minlength=count))
    children = inner[np.argsort(parent[inner], kind="stable")]
    size, node = np.ones(count, np.int32), node.copy()
    for level in reversed(_levels(first, children, roots.astype(np.int32))[1:]):
        np.add.at(size, parent[level], size[level])
        np.minimum.at(node, parent[level], node[level])
    # Now that it is known where each scope begins in the file, siblings can be put in that order.
    children = inner[np.lexsort((node[inner], parent[inner]))]
    levels = _levels(first, children, roots.astype(np.int32))
    place, depth = np.zeros(count, np.int32), np.zeros(count, np.int32)
    place[roots] = offsets(size[roots])[:-1]
    for number, level in enumerate(levels[1:], 1):
        before = offsets(size[level])[:-1]
        above = parent[level]
        # Siblings stand together: what came before the first of them belongs to others.
        is_first = np.ones(len(level), np.bool_)
        is_first[1:] = above[1:] != above[:-1]
        of_others = before[np.flatnonzero(is_first)][np.cumsum(is_first) - 1]
        place[level] = place[above] + 1 + before - of_others
        depth[level] = number
    return ScopeTree(place, size, depth)


def _levels(first: npt.NDArray[np.int64], children: Int32s, roots: Int32s) -> list[Int32s]:
    """The scopes by depth, those of one parent together."""
    levels = [roots]
    while True:
        places, _ = csr_entries(first, levels[-1])
        if not len(places):
            return levels
        levels.append(children[places])
