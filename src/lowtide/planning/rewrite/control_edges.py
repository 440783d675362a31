"""Control edges and barriers that enforce an order of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Generic

from lowtide.planning.rewrite.ancestors import Ancestors, Node
from lowtide.planning.tuning import TUNING

# A barrier waits for this many nodes of a schedule, and for the barrier before it.
STRIDE = TUNING.barrier_stride
# A limit above this is rounded to the next barrier.
_MANY = 2 * STRIDE


@dataclass(frozen=True)
class OrderEdges(Generic[Node]):
    """What enforces an order: control edges, and barriers, which are nodes that only wait."""

    edges: list[tuple[Node, Node]] = field(default_factory=list)
    """(before, after)"""
    barriers: list[tuple[Node, Node]] = field(default_factory=list)
    """A barrier, and the node of the schedule up to which all nodes have finished when the barrier has."""


def enforce_order(
    schedule: Sequence[Node],
    waits_for: Mapping[Node, Iterable[Node]],
    at_once: Mapping[Node, int],
    name_barrier: Callable[[Node], Node],
) -> OrderEdges[Node]:
    """Return the edges that enforce a schedule, of which up to `at_once` nodes may run at once.

    `waits_for` has the data and control edges of the graph, by the node that they lead to. Each node waits for all
    before it except the last `at_once` - 1, unless a path of the graph makes it wait already. A node that waits for
    many others waits for a barrier.
    """
    ancestors = Ancestors(schedule, waits_for)
    needed = [_needed(position, at_once[node]) for position, node in enumerate(schedule)]
    has_barriers = any(count > _MANY for count in at_once.values())
    barriers = _barriers(schedule, needed, name_barrier) if has_barriers else {}
    edges = _barrier_edges(schedule, barriers)
    done: list[int] = []
    """Per position: the position up to which all nodes have finished when its node starts."""
    for position, node in enumerate(schedule):
        waited = ancestors.latest(node)
        if waited >= position:
            raise ValueError(f"the graph makes {node!r} wait for {schedule[waited]!r}, which comes later")
        sure = done[waited] if waited >= 0 else -1
        sources = set(waits_for.get(node, ()))
        for other in range(needed[position], -1, -1):
            if other <= sure:
                break
            # A barrier, or a node that ran alone, has finished only after all nodes before it.
            if other in barriers and done[other] < other - 1:
                edges.append((barriers[other], node))
                break
            if other != waited and schedule[other] not in sources:
                edges.append((schedule[other], node))
            sure = max(sure, done[other])
        done.append(max(needed[position], -1))
    return OrderEdges(edges, [(barrier, schedule[position]) for position, barrier in barriers.items()])


def _needed(position: int, at_once: int) -> int:
    """Return the last position that must have finished before a node starts; -1 for none."""
    needed = position - at_once
    return needed // STRIDE * STRIDE + STRIDE - 1 if needed >= 0 and at_once > _MANY else needed


def _barriers(schedule: Sequence[Node], needed: Sequence[int], name_barrier: Callable[[Node], Node]) -> dict[int, Node]:
    """Return barriers by position, up to the last position that a node waits for."""
    return {position: name_barrier(schedule[position]) for position in range(STRIDE - 1, max(needed) + 1, STRIDE)}


def _barrier_edges(schedule: Sequence[Node], barriers: Mapping[int, Node]) -> list[tuple[Node, Node]]:
    """Let each barrier wait for the nodes since the barrier before it, and for that barrier."""
    edges = []
    for position, barrier in barriers.items():
        edges += [(node, barrier) for node in schedule[position - STRIDE + 1 : position + 1]]
        if position >= STRIDE:
            edges.append((barriers[position - STRIDE], barrier))
    return edges


def has_cycle(edges: Iterable[tuple[Node, Node]]) -> bool:
    """Whether edges (before, after) have a cycle."""
    sorter: TopologicalSorter[Node] = TopologicalSorter()
    for before, after in edges:
        sorter.add(after, before)
    try:
        sorter.prepare()
    except CycleError:
        return True
    return False
