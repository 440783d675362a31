"""Which nodes have to wait for which, so that the large ones run in a planned order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def ordering_edges(course: Sequence[Node], waits_for: Mapping[Node, Iterable[Node]]) -> list[tuple[Node, Node]]:
    """The control edges (before, after) that hold an order of some nodes of a graph: no fewer would.

    `waits_for` are the graph's edges, of data and control, by the node that they lead to. A node of the course waits
    for the one before it, unless a path of the graph makes it wait already.
    """
    position = {node: place for place, node in enumerate(course)}
    if len(position) < len(course):
        raise ValueError("a course of nodes names one of them twice")
    latest = _latest(position, waits_for)
    edges = []
    for place, node in enumerate(course):
        if latest[node] >= place:
            raise ValueError(f"the graph makes {node!r} wait for {course[latest[node]]!r}, which comes later")
        if place and latest[node] != place - 1:
            edges.append((course[place - 1], node))
    return edges


def _latest(position: Mapping[Node, int], waits_for: Mapping[Node, Iterable[Node]]) -> dict[Node, int]:
    """The last place of the course that each of its nodes waits for, itself or by way of others; -1 for none.

    Paths are followed back as far as the course: what lies behind its nodes is no later than they are.
    """
    latest: dict[Node, int] = {}
    path: set[Node] = set()
    for start in position:
        waiting = [start]
        while waiting:
            node = waiting[-1]
            sources = waits_for.get(node, ())
            missing = [source for source in sources if source not in position and source not in latest]
            if missing:
                if not path.isdisjoint(missing):
                    raise ValueError(f"the graph runs in a circle through {node!r}")
                path.add(node)
                waiting += missing
                continue
            waiting.pop()
            path.discard(node)
            latest[node] = max(
                (position[source] if source in position else latest[source] for source in sources), default=-1
            )
    return latest
