"""The tree of name scopes in depth-first order, in which every subtree is one range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowtide.atlas.index.arrays import Ids, Indices, Int32s, csr_entries, offsets, run_starts


@dataclass(frozen=True, slots=True)
class ScopeTree:
    """A forest of scopes, indexed by scope in the original numbering."""

    place: Int32s
    """Position in depth-first order."""
    size: Int32s
    """Number of scopes in the subtree, including the scope itself."""
    depth: Int32s


def depth_first(parent: Ids, roots: Indices, node: Int32s) -> ScopeTree:
    """Order scopes whose parents have lower numbers; siblings are sorted by `node`, the first node directly in each."""
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
    # `node` is now the first node of each subtree, so siblings can be put in the order of the file.
    children = inner[np.lexsort((node[inner], parent[inner]))]
    levels = _levels(first, children, roots.astype(np.int32))
    place, depth = np.zeros(count, np.int32), np.zeros(count, np.int32)
    place[roots] = offsets(size[roots])[:-1]
    for number, level in enumerate(levels[1:], 1):
        before = offsets(size[level])[:-1]
        above = parent[level]
        # Siblings are adjacent: sizes before the first of them belong to other parents.
        is_first = run_starts(above)
        of_others = before[np.flatnonzero(is_first)][np.cumsum(is_first) - 1]
        place[level] = place[above] + 1 + before - of_others
        depth[level] = number
    return ScopeTree(place, size, depth)


def _levels(first: Indices, children: Int32s, roots: Int32s) -> list[Int32s]:
    """Return the scopes of each depth; siblings are adjacent."""
    levels = [roots]
    while True:
        places, _ = csr_entries(first, levels[-1])
        if not len(places):
            return levels
        levels.append(children[places])
