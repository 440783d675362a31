"""The order of oneDNN's kernels in the graph that TensorFlow runs, which differs from process to process.

A pass of TensorFlow replaces nodes by kernels of oneDNN. It visits the nodes in the reverse postorder of a depth-first
search and adds each replacement at the end of the graph. The search starts at a node that has an edge to every node
without inputs. These edges, and those of every other node with more than eight, are kept in a hash table by address, so
the order of the replacements is another one in each process. Readers are notified in the order in which they were
built. In the backward loop of a recurrent layer, the gradients of the weights and of the state become ready together.
If the latter comes last, the thread runs it at once, and the loop runs ahead by as many iterations as it may, while the
gradients of the weights pile up: such a process takes several times the memory of another one, in each step.
"""

from __future__ import annotations

from random import Random

from lowtide.program.graph import Graph, is_replacement
from lowtide.simulator.workload import MOST_ORDERED_EDGES, Workload, construction_order, with_places


def draw_kernel_orders(work: Workload, count: int) -> list[tuple[Workload, int]]:
    """Return workloads that differ in the order of oneDNN's kernels, each with how often it was drawn.

    The most frequent comes first. Without such kernels, there is one.
    """
    replaced = [node for node, op in enumerate(work.graph.ops) if is_replacement(op)]
    if not work.graph.earlier or not replaced:
        return [(work, count)]
    search = _Search(work.graph)
    drawn: dict[tuple[int, ...], int] = {}
    for seed in range(count):
        place = search.postorder_places(Random(seed))
        order = tuple(sorted(replaced, key=lambda node: -place[node]))
        drawn[order] = drawn.get(order, 0) + 1
    found: list[tuple[Workload, int]] = []
    for order, times in drawn.items():
        variant = with_places(work, _places(work.graph, order))
        for position, (known, seen) in enumerate(found):
            if known.successors == variant.successors:
                found[position] = known, seen + times
                break
        else:
            found.append((variant, times))
    return sorted(found, key=lambda pair: -pair[1])


def _places(graph: Graph, order: tuple[int, ...]) -> list[int]:
    """Return the place of each node in the file: oneDNN's kernels in the given order, after all others."""
    replaced = set(order)
    places = [0] * len(graph)
    for place, node in enumerate([*(node for node in range(len(graph)) if node not in replaced), *order]):
        places[node] = place
    return places


class _Search:
    """The depth-first search of the pass, over the nodes at their places before the pass."""

    def __init__(self, graph: Graph) -> None:
        count, producer = len(graph), graph.producers()
        earlier = [*graph.earlier, *range(len(graph.earlier), count)]
        self.successors: list[list[int]] = [[] for _ in range(count)]
        self.roots: list[int] = []
        for node in construction_order(graph, places=earlier):
            sources = [*(producer[tensor] for tensor in graph.inputs_of(node)), *graph.controls_of(node)]
            for source in sources:
                self.successors[source].append(node)
            if not sources:
                self.roots.append(node)

    def postorder_places(self, rng: Random) -> list[int]:
        """Return the place of each node in one postorder."""
        places = [-1] * len(self.successors)
        visited = bytearray(len(places))
        # `~node` stands for the end of the visit of a node.
        stack = self._edges(self.roots, rng)
        finished = 0
        while stack:
            node = stack.pop()
            if node < 0:
                places[~node] = finished
                finished += 1
            elif not visited[node]:
                visited[node] = True
                stack.append(~node)
                stack.extend(self._edges(self.successors[node], rng))
        return places

    def _edges(self, nodes: list[int], rng: Random) -> list[int]:
        return rng.sample(nodes, len(nodes)) if len(nodes) > MOST_ORDERED_EDGES else list(nodes)
