"""For each scheduled node, the earlier nodes that are guaranteed to have finished when it starts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from lowtide.planning.tuning import TUNING

Node = TypeVar("Node", bound=Hashable)

# How many positions back ancestors are known.
SPAN = TUNING.window
_ALL = (1 << SPAN) - 1

AncestorBits = tuple[int, int]
"""A position, and as bits which of the positions up to it have finished; the lowest bit is the position itself. A node
without ancestors has (-1, 0)."""


class Ancestors(Generic[Node]):
    """The ancestors of each node of a schedule.

    `waits_for` has the data and control edges of the graph, by the node that they lead to. Paths may lead through nodes
    that are not in the schedule. Nodes must be queried in schedule order.
    """

    def __init__(self, schedule: Sequence[Node], waits_for: Mapping[Node, Iterable[Node]]) -> None:
        self.schedule = schedule
        self.waits_for = waits_for
        self.position = {node: position for position, node in enumerate(schedule)}
        if len(self.position) < len(schedule):
            raise ValueError("a schedule of nodes names one of them twice")
        self.unscheduled: dict[Node, AncestorBits] = {}
        """The ancestors of nodes that are not in the schedule."""
        self.finished_with: list[int] = []
        """Per position, what has finished once it has: bits that end there."""

    def latest(self, node: Node) -> int:
        """Return the last position that a node waits for; -1 for none."""
        return self._find(node)[0]

    def finished_before(self, position: int) -> npt.NDArray[np.bool_]:
        """Return which of the positions before this one, up to `SPAN` - 1, have finished when it starts."""
        end, bits = self._find(self.schedule[position])
        count = min(position, SPAN - 1)
        # Shift so that the position before is the lowest bit.
        distance = position - 1 - end
        shifted = (bits << distance) & _ALL if distance < SPAN else 0
        found = np.unpackbits(np.frombuffer(shifted.to_bytes(SPAN // 8, "little"), np.uint8), bitorder="little")
        return found[:count][::-1].astype(np.bool_)

    def record(self, position: int, at_once: int) -> None:
        """Record that the next node also waits for everything except the last `at_once` nodes."""
        end, bits = self._find(self.schedule[position])
        distance = position - end
        finished = 1 | (bits << distance if distance < SPAN else 0)
        self.finished_with.append((finished | (_ALL << at_once)) & _ALL)

    def _find(self, node: Node) -> AncestorBits:
        """Return the ancestors of a node; raise ValueError if the graph has a cycle."""
        path: set[Node] = set()
        waiting = [node]
        while True:
            current = waiting[-1]
            sources = self.waits_for.get(current, ())
            missing = [source for source in sources if source not in self.position and source not in self.unscheduled]
            if missing:
                if not path.isdisjoint(missing):
                    raise ValueError(f"the graph has a cycle through {current!r}")
                path.add(current)
                waiting += missing
                continue
            waiting.pop()
            path.discard(current)
            found = _merge([self._known(source) for source in sources])
            if not waiting:
                return found
            self.unscheduled[current] = found

    def _known(self, source: Node) -> AncestorBits:
        position = self.position.get(source)
        if position is None:
            return self.unscheduled[source]
        return position, self.finished_with[position] if position < len(self.finished_with) else 1


def _merge(several: Sequence[AncestorBits]) -> AncestorBits:
    """Return the union of several nodes' ancestors."""
    end = max((each[0] for each in several), default=-1)
    bits = 0
    for other, finished in several:
        if end - other < SPAN:
            bits |= finished << (end - other)
    return end, bits & _ALL
