"""Which nodes have to wait for which, so that the large ones run in a planned order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def ordering_edges(
    course: Sequence[Node], waits_for: Mapping[Node, Iterable[Node]], at_once: Mapping[Node, int] | None = None
) -> list[tuple[Node, Node]]:
    """The control edges (before, after) that hold an order of some nodes of a graph.

    `waits_for` are the graph's edges, of data and control, by the node that they lead to. A node of the course waits
    for the one before it, unless a path of the graph makes it wait already. Where it may be one of several
    that are under way `at_once`, it waits for all but the last of those before it.
    """
    position = {node: place for place, node in enumerate(course)}
    if len(position) < len(course):
        raise ValueError("a course of nodes names one of them twice")
    latest = _latest(position, waits_for)
    edges = []
    done: list[int] = []
    """Up to which place all is done when a node begins."""
    for place, node in enumerate(course):
        waited = latest[node]
        if waited >= place:
            raise ValueError(f"the graph makes {node!r} wait for {course[waited]!r}, which comes later")
        needed = place - (at_once[node] if at_once else 1)
        sure = done[waited] if waited >= 0 else -1
        for other in range(needed, -1, -1):
            if other <= sure:
                break
            if other != waited:
                edges.append((course[other], node))
            sure = max(sure, done[other])
        done.append(max(needed, -1))
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


def has_circle(edges: Iterable[tuple[Node, Node]]) -> bool:
    """Whether a node would wait for itself in the end, given who comes before whom."""
    followers: dict[Node, list[Node]] = {}
    waiting: dict[Node, int] = {}
    for before, after in edges:
        waiting.setdefault(before, 0)
        waiting[after] = waiting.get(after, 0) + 1
        followers.setdefault(before, []).append(after)
    ready = [node for node, count in waiting.items() if not count]
    for node in ready:
        for follower in followers.get(node, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    return len(ready) < len(waiting)
