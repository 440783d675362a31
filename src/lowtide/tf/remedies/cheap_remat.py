"""Rematerialization that costs next to nothing: what the planner finds for a few percent of a step's time."""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.planning.plan import RECOMPUTE, NoPlanError, Plan, format_slowdown
from lowtide.planning.plan_search import search_plan
from lowtide.planning.remat.remat_search import frontier
from lowtide.planning.remedies.remedy import PLANNED, Remedy, lowered, name_some
from lowtide.planning.tuning import TUNING
from lowtide.tf.plan.planning_context import PlanningContext
from lowtide.tf.remedies.subject import Subject, staged
from lowtide.tf.trace.trace import without_garbage_collection
from lowtide.tf.trace.xla.step import CompiledStep
from lowtide.units import format_bytes, format_bytes_up, format_count, parse_bytes

# The share of the step's time that recomputing may take, and what a plan may cost with the order that it enforces.
_CHEAP_SHARE, _MOST_SHARE = 0.02, 0.05
# A budget that no plan keeps is raised to this share of the way to the plain step's bound.
_RAISED = (0.0, 0.4)


def plan_cheap_remat(subject: Subject) -> Iterator[Remedy]:
    """Yield the plan that recomputes what costs next to nothing."""
    if isinstance(subject.step, CompiledStep):
        subject.notes.append("rematerialization is not tried: XLA compiles each attempt; lowtide plan tries it")
        return
    with subject.trying("rematerialization"), without_garbage_collection():
        plan = _find_plan(subject)
        if plan is None:
            subject.notes.append(
                f"no plan saves memory for at most {format_slowdown(_MOST_SHARE)} time; lowtide plan tries more"
            )
            return
        yield _as_remedy(subject, plan)


def _find_plan(subject: Subject) -> Plan | None:
    report = staged(subject.progress, "looking for cheap recomputation")
    before = subject.tide
    context = PlanningContext(subject.step, before, report)
    points = [point for point in frontier(context.problem) if point[2]]
    limit_us = _CHEAP_SHARE * context.problem.total_us
    cheap = [planned for planned, extra_us, _ in points if extra_us <= limit_us]
    if not cheap:
        return None
    # What a search within this budget would aim at.
    lowest = int(min(cheap) * (1.0 + TUNING.first_margin))
    for share in _RAISED:
        budget = parse_bytes(format_bytes_up(lowest + int(share * max(before.safe_bytes - lowest, 0))))
        if budget >= before.safe_bytes:
            return None
        try:
            plan = context.plan_of(search_plan(context, budget, report, thorough=False), budget)
        except NoPlanError:
            continue
        if plan.slowdown <= _MOST_SHARE and plan.after.peak_bytes < before.peak_bytes:
            return plan
    return None


def _as_remedy(subject: Subject, plan: Plan) -> Remedy:
    again = [action for action in plan.actions if action.kind == RECOMPUTE]
    names = name_some([f"{action.op} of {action.layer}" if action.layer else str(action.op) for action in again])
    held = format_bytes(sum(action.saves_bytes for action in again))
    problem = f"{format_count(len(again), 'tensor')} of {held} cost little to compute again: {names}"
    if not again:
        problem = "another order of the ops frees memory sooner"
    budget = format_bytes_up(plan.budget_bytes)
    use = f'lt.fit_in(model, "{budget}")' if subject.model is not None else f'lt.plan(step, *specs, budget="{budget}")'
    advice = f"{use} {'recomputes them in the backward pass' if again else 'enforces it'}"
    # Enforcing an order makes the peaks of the steps alike, which lowers the bound first.
    least = subject.least_share
    return lowered(subject.tide, plan.after, "remat", problem, advice, least, slowdown=plan.slowdown, method=PLANNED)
