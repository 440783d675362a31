"""Which nodes have to wait for which, so that the large ones run in a planned order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

from lowtide.planning.rewrite.ancestors import Node, Past

# A joint stands for so many nodes of a course.
STRIDE = 8
# Where more than this may be under way at once, some more or fewer make no difference.
_MANY = 2 * STRIDE


@dataclass(frozen=True)
class Holding(Generic[Node]):
    """What holds an order of some nodes: control edges, and joints, nodes that do nothing but wait."""

    edges: list[tuple[Node, Node]] = field(default_factory=list)
    """(before, after)"""
    joints: list[tuple[Node, Node]] = field(default_factory=list)
    """A joint, and the node of the course that it comes behind: all up to that are done when it is."""


def hold_in_order(
    course: Sequence[Node],
    waits_for: Mapping[Node, Iterable[Node]],
    at_once: Mapping[Node, int],
    name_joint: Callable[[Node], Node],
) -> Holding[Node]:
    """Hold an order of some nodes of a graph, of which several may be under way `at_once`.

    `waits_for` are the graph's edges, of data and control, by the node that they lead to. A node of the course waits
    for all before it but the last, one less than may be under way with it, unless a path of the graph makes it wait
    already. Many are waited for by way of joints.
    """
    past = Past(course, waits_for)
    needed = [_needed(place, at_once[node]) for place, node in enumerate(course)]
    joints = _joints(course, needed, name_joint) if any(count > _MANY for count in at_once.values()) else {}
    edges = _joint_edges(course, joints)
    done: list[int] = []
    """Up to which place all is done when a node begins."""
    for place, node in enumerate(course):
        waited = past.latest(node)
        if waited >= place:
            raise ValueError(f"the graph makes {node!r} wait for {course[waited]!r}, which comes later")
        sure = done[waited] if waited >= 0 else -1
        sources = set(waits_for.get(node, ()))
        for other in range(needed[place], -1, -1):
            if other <= sure:
                break
            # A joint stands for all before it, which a node that was alone does as well.
            if other in joints and done[other] < other - 1:
                edges.append((joints[other], node))
                break
            if other != waited and course[other] not in sources:
                edges.append((course[other], node))
            sure = max(sure, done[other])
        done.append(max(needed[place], -1))
    return Holding(edges, [(joint, course[place]) for place, joint in joints.items()])


def _needed(place: int, at_once: int) -> int:
    """The last place that has to be done before a node begins: -1 for none."""
    needed = place - at_once
    return needed // STRIDE * STRIDE + STRIDE - 1 if needed >= 0 and at_once > _MANY else needed


def _joints(course: Sequence[Node], needed: Sequence[int], name_joint: Callable[[Node], Node]) -> dict[int, Node]:
    """Joints by their place, up to the last that can be waited for."""
    return {place: name_joint(course[place]) for place in range(STRIDE - 1, max(needed) + 1, STRIDE)}


def _joint_edges(course: Sequence[Node], joints: Mapping[int, Node]) -> list[tuple[Node, Node]]:
    """A joint waits for those of the course since the last joint, and for that."""
    edges = []
    for place, joint in joints.items():
        edges += [(node, joint) for node in course[place - STRIDE + 1 : place + 1]]
        if place >= STRIDE:
            edges.append((joints[place - STRIDE], joint))
    return edges


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
