"""A Network of pipes from a source to a sink, and its minimum cut (Dinic's algorithm)."""

from __future__ import annotations

SOURCE, SINK = 0, 1
UNLIMITED = 1 << 62


class Network:
    """Places and the pipes between them; pipe `p` and its way back `p ^ 1` are neighbours."""

    def __init__(self) -> None:
        self.pipes: list[list[int]] = [[], []]
        """The pipes out of each place."""
        self.ends: list[int] = []
        self.room: list[int] = []

    def add(self) -> int:
        """A new place."""
        self.pipes.append([])
        return len(self.pipes) - 1

    def link(self, start: int, end: int, size: int) -> None:
        """A new pipe."""
        self.pipes[start].append(len(self.ends))
        self.pipes[end].append(len(self.ends) + 1)
        self.ends += (end, start)
        self.room += (size, 0)

    def source_side(self) -> list[bool]:
        """The smallest set of places around the source whose pipes to all others are as narrow as can be."""
        while True:
            depth = self._depths()
            if not depth[SINK]:
                return [place == SOURCE or far > 0 for place, far in enumerate(depth)]
            self._fill(depth)

    def _depths(self) -> list[int]:
        """How far each place is from the source, through pipes with room; 0 where there is no way."""
        depth = [0] * len(self.pipes)
        level, front = 0, [SOURCE]
        while front:
            level += 1
            reached = []
            for place in front:
                for pipe in self.pipes[place]:
                    end = self.ends[pipe]
                    if self.room[pipe] and not depth[end] and end != SOURCE:
                        depth[end] = level
                        reached.append(end)
            front = reached
        return depth

    def _fill(self, depth: list[int]) -> None:
        """Send as much as the shortest ways take."""
        pipes, ends, room = self.pipes, self.ends, self.room
        tried = [0] * len(pipes)
        way: list[int] = []
        place = SOURCE
        while True:
            if place == SINK:
                sent = min(room[pipe] for pipe in way)
                for pipe in way:
                    room[pipe] -= sent
                    room[pipe ^ 1] += sent
                # Go on from before the first pipe that is full now.
                full = next(step for step, pipe in enumerate(way) if not room[pipe])
                place = ends[way[full] ^ 1]
                del way[full:]
            while tried[place] < len(pipes[place]):
                pipe = pipes[place][tried[place]]
                if room[pipe] and depth[ends[pipe]] == depth[place] + 1:
                    break
                tried[place] += 1
            else:
                if place == SOURCE:
                    return
                tried[ends[way[-1] ^ 1]] += 1
                place = ends[way.pop() ^ 1]
                continue
            way.append(pipe)
            place = ends[pipe]
