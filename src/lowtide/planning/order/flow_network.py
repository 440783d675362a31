"""A flow network and its minimum cut (Dinic's algorithm)."""

from __future__ import annotations

SOURCE, SINK = 0, 1
UNLIMITED = 1 << 62


class FlowNetwork:
    """Nodes and directed edges with capacities; edge `e` and its residual edge `e ^ 1` are neighbours."""

    def __init__(self) -> None:
        self.edges: list[list[int]] = [[], []]
        """The edges out of each node."""
        self.heads: list[int] = []
        """The node that each edge leads to."""
        self.capacity: list[int] = []
        """The residual capacity of each edge."""

    def add_node(self) -> int:
        """Add a node and return its number."""
        self.edges.append([])
        return len(self.edges) - 1

    def add_edge(self, tail: int, head: int, capacity: int) -> None:
        """Add an edge."""
        self.edges[tail].append(len(self.heads))
        self.edges[head].append(len(self.heads) + 1)
        self.heads += (head, tail)
        self.capacity += (capacity, 0)

    def source_side(self) -> list[bool]:
        """Return which nodes are on the source's side of the minimum cut; of several cuts, the smallest side."""
        while True:
            depth = self._depths()
            if not depth[SINK]:
                return [node == SOURCE or distance > 0 for node, distance in enumerate(depth)]
            self._augment(depth)

    def _depths(self) -> list[int]:
        """Return the distance of each node from the source in the residual graph; 0 where there is no path."""
        depth = [0] * len(self.edges)
        level, front = 0, [SOURCE]
        while front:
            level += 1
            reached = []
            for node in front:
                for edge in self.edges[node]:
                    head = self.heads[edge]
                    if self.capacity[edge] and not depth[head] and head != SOURCE:
                        depth[head] = level
                        reached.append(head)
            front = reached
        return depth

    def _augment(self, depth: list[int]) -> None:
        """Send a blocking flow along shortest paths."""
        edges, heads, capacity = self.edges, self.heads, self.capacity
        tried = [0] * len(edges)
        path: list[int] = []
        node = SOURCE
        while True:
            if node == SINK:
                sent = min(capacity[edge] for edge in path)
                for edge in path:
                    capacity[edge] -= sent
                    capacity[edge ^ 1] += sent
                # Continue from the tail of the first saturated edge.
                full = next(step for step, edge in enumerate(path) if not capacity[edge])
                node = heads[path[full] ^ 1]
                del path[full:]
            while tried[node] < len(edges[node]):
                edge = edges[node][tried[node]]
                if capacity[edge] and depth[heads[edge]] == depth[node] + 1:
                    break
                tried[node] += 1
            else:
                if node == SOURCE:
                    return
                tried[heads[path[-1] ^ 1]] += 1
                node = heads[path.pop() ^ 1]
                continue
            path.append(edge)
            node = heads[edge]
