"""Breadth-first search: the neighbourhood of a node, and the shortest paths between two nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Column, Indices, Int32s, csr_entries
from lowtide.atlas.index.references import MISSING

MOST_NODES = 120
_MANY = 100_000
BOTH, INPUTS, READERS = "both", "inputs", "readers"


@dataclass(frozen=True, slots=True)
class ReachedNodes:
    """The nodes that a search reached, and how many more it left out; a lower bound where there are very many."""

    nodes: Indices
    hidden: int = 0


def around(atlas: Atlas, node: int, hops: int, direction: str = BOTH, most: int = MOST_NODES) -> ReachedNodes:
    """Return the nodes within `hops` edges; the nearest ones where there are more than `most`."""
    seen = np.zeros(len(atlas), np.bool_)
    seen[node] = True
    frontier = np.array([node], np.int64)
    found, hidden = [frontier], 0
    for _ in range(hops):
        following = []
        if direction in (BOTH, INPUTS):
            following.append(_next(atlas.first_input, atlas.inputs, frontier))
        if direction in (BOTH, READERS):
            following.append(_next(atlas.first_reader, atlas.readers, frontier))
        frontier = np.unique(np.concatenate(following))
        frontier = frontier[~seen[frontier]]
        seen[frontier] = True
        room = most - sum(map(len, found))
        hidden += max(len(frontier) - room, 0)
        found.append(frontier[: max(room, 0)])
        # Near a hub lies most of the graph; an exact count is not worth the memory.
        if not len(frontier) or hidden > _MANY:
            break
    return ReachedNodes(np.concatenate(found), hidden)


def shortest_paths(atlas: Atlas, start: int, end: int) -> ReachedNodes | None:
    """Return all nodes on the shortest directed paths between two nodes; None if there is no path."""
    distance = _distances(atlas, start, end)
    if distance is None:
        return None
    # Backwards from the end, to the nodes that are one edge nearer to the start.
    frontier, found, hidden = np.array([end], np.int64), [np.array([end], np.int64)], 0
    for left in range(int(distance[end]) - 1, -1, -1):
        before = np.unique(_next(atlas.first_input, atlas.inputs, frontier))
        frontier = before[distance[before] == left]
        # At least one node of each distance is kept, so that the path has no gap.
        room = max(MOST_NODES - sum(map(len, found)) - left, 1)
        hidden += max(len(frontier) - room, 0)
        frontier = frontier[:room]
        found.append(frontier)
    nodes = np.concatenate(found)
    return ReachedNodes(nodes[:MOST_NODES], hidden + max(len(nodes) - MOST_NODES, 0))


def _distances(atlas: Atlas, start: int, end: int) -> Int32s | None:
    """Return the distance of each node from the start, -1 where not reached; None if the end is not reached."""
    distance = np.full(len(atlas), -1, np.int32)
    distance[start] = 0
    frontier = np.array([start], np.int64)
    step = 0
    while len(frontier) and distance[end] < 0:
        step += 1
        following = _next(atlas.first_reader, atlas.readers, frontier)
        frontier = np.unique(following[distance[following] < 0])
        distance[frontier] = step
    return None if distance[end] < 0 else distance


def _next(first: Column, entries: Column, nodes: Indices) -> Indices:
    places, _ = csr_entries(first, nodes)
    following = entries[places]
    return np.asarray(following[following != MISSING], np.int64)
