"""The Past: who of a course is surely done when one of it begins, because a path of the graph makes it wait."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Node = TypeVar("Node", bound=Hashable)

# How many places a past is known back: nobody asks for more.
SPAN = 256
_ALL = (1 << SPAN) - 1

Trail = tuple[int, int]
"""A place, and as bits which of the places up to it are done: the lowest is the place itself. Nothing is (-1, 0)."""


class Past(Generic[Node]):
    """What each node of a course waits for.

    `waits_for` are the graph's edges, of data and control, by the node that they lead to. Paths are followed back as
    far as the course, through nodes that are not in it. Nodes are asked for in the order of the course.
    """

    def __init__(self, course: Sequence[Node], waits_for: Mapping[Node, Iterable[Node]]) -> None:
        self.course = course
        self.waits_for = waits_for
        self.place = {node: place for place, node in enumerate(course)}
        if len(self.place) < len(course):
            raise ValueError("a course of nodes names one of them twice")
        self.trails: dict[Node, Trail] = {}
        """Of nodes that are not in the course."""
        self.done_with: list[int] = []
        """Per place, what is done once it is: bits of a trail that ends there."""

    def latest(self, node: Node) -> int:
        """The last place that a node waits for; -1 for none."""
        return self._trail(node)[0]

    def done(self, place: int) -> npt.NDArray[np.bool_]:
        """Of the places before this one, up to `SPAN` less one, which are done when it begins."""
        end, bits = self._trail(self.course[place])
        count = min(place, SPAN - 1)
        # From here the place before is the lowest bit.
        ago = place - 1 - end
        seen = (bits << ago) & _ALL if ago < SPAN else 0
        found = np.unpackbits(np.frombuffer(seen.to_bytes(SPAN // 8, "little"), np.uint8), bitorder="little")
        return found[:count][::-1].astype(np.bool_)

    def settle(self, place: int, at_once: int) -> None:
        """Hear that the node at a place, the next one, also waits for all but the last before it."""
        end, bits = self._trail(self.course[place])
        ago = place - end
        done = 1 | (bits << ago if ago < SPAN else 0)
        self.done_with.append((done | (_ALL << at_once)) & _ALL)

    def _trail(self, node: Node) -> Trail:
        """What a node waits for: a path that runs in a circle is refused."""
        place, trails = self.place, self.trails
        path: set[Node] = set()
        waiting = [node]
        while True:
            current = waiting[-1]
            sources = self.waits_for.get(current, ())
            missing = [source for source in sources if source not in place and source not in trails]
            if missing:
                if not path.isdisjoint(missing):
                    raise ValueError(f"the graph runs in a circle through {current!r}")
                path.add(current)
                waiting += missing
                continue
            waiting.pop()
            path.discard(current)
            trail = _merged([self._known(source) for source in sources])
            if not waiting:
                return trail
            trails[current] = trail

    def _known(self, source: Node) -> Trail:
        place = self.place.get(source)
        if place is None:
            return self.trails[source]
        return place, self.done_with[place] if place < len(self.done_with) else 1


def _merged(trails: Sequence[Trail]) -> Trail:
    """What is done where several trails end."""
    end = max((trail[0] for trail in trails), default=-1)
    bits = 0
    for other, done in trails:
        if end - other < SPAN:
            bits |= done << (end - other)
    return end, bits & _ALL
