"""The actions of a rewrite: one for each rematerialized tensor and each reordered operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lowtide.planning.plan import ORDER, RECOMPUTE, Action
from lowtide.planning.problem import PlanningProblem
from lowtide.planning.remat.remat_search import RematTask
from lowtide.planning.rewrite.rewrite import Rewrite
from lowtide.program.graph import Graph


def actions_of(
    graph: Graph,
    problem: PlanningProblem,
    remats: Iterable[RematTask],
    rewrite: Rewrite,
    layer: Callable[[str], str | None],
) -> tuple[Action, ...]:
    """Return the actions of a rewrite, those that save most first; `layer` finds the layer of a node."""
    actions = []
    for remat in remats:
        node = problem.nodes[remat.task]
        name, op = graph.names[node], graph.ops[node]
        reason = "computed again where the backward pass needs it, not kept until then"
        actions.append(Action(RECOMPUTE, name, op, layer(name), remat.saves_bytes, remat.cost_us, reason))
    actions.sort(key=lambda action: -action.saves_bytes)
    ops = dict(zip(graph.names, graph.ops, strict=True))
    copies, barriers = dict(rewrite.copies), dict(rewrite.barriers)
    waits: dict[str, list[str]] = {}
    for earlier, later in rewrite.controls:
        if later not in barriers:
            waits.setdefault(later, []).append(f"all up to {barriers[earlier]}" if earlier in barriers else earlier)
    for later, waited in waits.items():
        original = copies.get(later, later)
        actions.append(Action(ORDER, later, ops[original], layer(original), 0, 0.0, f"runs after {', '.join(waited)}"))
    return tuple(actions)
