"""Plan: how a step runs within a budget, found by search and vouched for by a trace of the result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import keras

from lowtide.errors import LowtideError
from lowtide.graph.kernels import with_kernels
from lowtide.planning.allowance import check_allow
from lowtide.planning.order import lowest_order
from lowtide.planning.plan import ORDER, RECOMPUTE, Action, FrontierPoint, NoPlanError, Plan
from lowtide.planning.problem import Problem, build_problem
from lowtide.planning.realize import realize
from lowtide.planning.recompute import Answer, frontier, lower
from lowtide.planning.rewrite import Rewrite
from lowtide.tf.convert import graph_from_def
from lowtide.tf.flatten import FlatFunction, flat_of, flatten, is_stateful
from lowtide.tf.known_steps import find_step, trace_model
from lowtide.tf.origins import layer_finder
from lowtide.tf.predict import check_batch_size
from lowtide.tf.resolve import resolve_shapes
from lowtide.tf.rewrite import Redefined, apply, fingerprint, planned_callable, register
from lowtide.tf.steps import CompiledStep, SimulatedStep, Step
from lowtide.tf.trace import Progress, without_garbage_collection
from lowtide.tf.variants import Variant, allowable, variants_of
from lowtide.tide.tide import Tide
from lowtide.tide.workload import Workload, build_workload
from lowtide.units import parse_bytes

# A value below this share of the peak is small: what it does is left alone.
SMALL_SHARE, SMALLEST_BYTES = 1 / 4000, 16 << 10
# The first guess at how much above the planner's own figure a sure limit lies: the allocator rounds chunks up. Each
# trace of a rewrite corrects it.
FIRST_MARGIN = 0.16
MOST_ATTEMPTS = 4
# An attempt that leaves less than this of the budget unused is good enough.
UNUSED_SHARE = 0.06
# A first search is quick; what costs more than this share of the step is worth a longer one.
QUICK_EFFORT = 4_000
WORTH_AN_EFFORT = 0.04
# Ops that run a function are no stateful ops by their definition, but their functions may do anything.
_CALLS = frozenset("PartitionedCall If StatelessIf While StatelessWhile Case StatelessCase RemoteCall MapDefun".split())


def plan(
    target: Any,
    *specs: Any,
    budget: str | int | None = None,
    batch_size: int | None = None,
    allow: Sequence[str] = (),
    only: str | None = None,
    progress: Progress | None = None,
    label: str | None = None,
) -> Plan:
    """Find a way to run a step within a budget: of a compiled Keras model, or of a function with its specs.

    With `only="order"` nothing is computed again: the step runs in the order with the lowest peak that was found, which
    costs nothing, and its budget is what that takes.
    """
    check_batch_size(batch_size)
    allowed = check_allow(allow)
    step = find_step(target, specs, batch_size, progress, exactly=True)
    if only is not None or budget is None:
        return _order_only(step, batch_size, budget, only, progress, label)
    budget_bytes = parse_bytes(budget)
    if not isinstance(target, keras.Model):
        return plan_step(step, batch_size, budget_bytes, progress, label)

    def step_of(variant: Variant) -> Step:
        if variant.pieces == 1 and variant.precision is None:
            return step
        return trace_model(target, specs, batch_size, variant.train_step, progress)

    variants = variants_of(target, allowed, step.batch_size)
    more = allowable(target, allowed)
    return plan_first(variants, step_of, step.batch_size, budget_bytes, more, progress, label)


def plan_first(
    variants: Iterable[Variant],
    step_of: Callable[[Variant], Step],
    batch_size: int | None,
    budget_bytes: int,
    more: tuple[str, ...],
    progress: Progress | None,
    label: str | None,
) -> Plan:
    """Plan the first variant of a model's step that can be; `more` is what else might be allowed."""
    before: Tide | None = None
    closest: NoPlanError | None = None
    for variant in variants:
        with variant.meanwhile():
            try:
                made = plan_step(step_of(variant), batch_size, budget_bytes, progress, label)
            except NoPlanError as error:
                before = before or error.before
                if closest is None or error.smallest_bytes < closest.smallest_bytes:
                    closest = error
                continue
            except LowtideError:
                # Whether a loss can be split shows only when it is traced.
                if variant.pieces == 1:
                    raise
                continue
        return _as_variant(made, variant, before)
    assert closest is not None
    raise NoPlanError(closest.problem, budget_bytes, closest.smallest_bytes, closest.frontier, more) from closest


def _as_variant(made: Plan, variant: Variant, before: Tide | None) -> Plan:
    """A plan of a variant, told as one of the step as it was."""
    if before is None:
        return made
    bind = made.bind

    def settled() -> Callable[..., Any]:
        assert bind is not None
        variant.settle()
        return bind()

    return dataclasses.replace(
        made,
        before=before,
        actions=(*variant.actions(), *made.actions),
        pieces=variant.pieces,
        precision=variant.precision,
        notes=(*made.notes, *variant.notes),
        bind=settled,
    )


def plan_step(
    step: Any, batch_size: int | None, budget_bytes: int, progress: Progress | None = None, label: str | None = None
) -> Plan:
    """Plan a traced step."""
    tell = progress or (lambda text: None)
    before = step.tide(batch_size, progress, label)
    if before.safe_bytes <= budget_bytes:
        concrete = step.concrete
        return Plan(before.target, budget_bytes, before, before, 0.0, bind=lambda: concrete)
    _check_floor(before, budget_bytes)
    tell("looking at the graph")
    with without_garbage_collection():
        ground = Ground(step, before)
        return _search(ground, budget_bytes, tell, label)


def _order_only(
    step: Step,
    batch_size: int | None,
    budget: str | int | None,
    only: str | None,
    progress: Progress | None,
    label: str | None,
) -> Plan:
    """The step in its best order."""
    if only != ORDER or budget is not None:
        given = f"budget={budget!r}, only={only!r}"
        raise LowtideError("a plan needs a budget, or only='order' without one", given=given, cure='try budget="4GiB"')
    if isinstance(step, CompiledStep):
        raise LowtideError("XLA chooses the order of a compiled step itself", given=step.label, cure="give a budget")
    before = step.tide(batch_size, progress, label)
    tell = progress or (lambda text: None)
    with without_garbage_collection():
        ground = Ground(step, before)
        attempt = ground.attempt(lower(ground.problem, before.peak_bytes << 10), tell, label)
        return _plan_of(ground, attempt.after.safe_bytes, attempt)


def _check_floor(before: Tide, budget_bytes: int) -> None:
    held = int(before.curve.bytes_in_use[0])
    if held >= budget_bytes:
        raise NoPlanError(
            "the budget is below what is there before the step begins: variables, optimizer state and the batch",
            budget_bytes,
            held,
            before=before,
        )


# Loops and branches as single steps, which only an executor understands.
_LOWERED = frozenset("Switch Merge Enter Exit NextIteration".split())


def flat_step(step: Step) -> FlatFunction:
    """The graph to edit: as Grappler left it, so that what it fused and folded stays so, bit for bit.

    A compiled step has not seen Grappler, and loops are still whole only in the graph as it was traced.
    """
    if isinstance(step, SimulatedStep):
        optimized = step.program.optimized_def
        if optimized is not None and not any(op in _LOWERED for op in step.program.graph.ops):
            return flat_of(step.concrete, optimized)
    return flatten(step.concrete)


class Ground:
    """What a plan is made on: the flat graph of a step, and the problem that it poses."""

    def __init__(self, step: Any, before: Tide) -> None:
        self.step = step
        self.before = before
        self.concrete = step.concrete
        self.compiled = isinstance(step, CompiledStep)
        self.flat = flat_step(step)
        graph = graph_from_def(self.flat.graph_def)
        if isinstance(step, SimulatedStep):
            graph = with_kernels(graph, step.program.graph)
        shapes = {index: tuple(shape) for index, shape in enumerate(step.argument_shapes) if shape is not None}
        self.work: Workload = build_workload(resolve_shapes(graph, self.flat.graph_def, shapes), fold=False)
        smallest = max(int(before.peak_bytes * SMALL_SHARE), SMALLEST_BYTES)
        ops = set(self.work.graph.ops)
        stateful = frozenset(op for op in ops if op in _CALLS or is_stateful(op))
        self.order = lowest_order(self.work)
        self.problem: Problem = build_problem(
            self.work, self.order.nodes, stateful, smallest, int(before.curve.bytes_in_use[0])
        )
        if self.compiled:
            # XLA has kernels of its own, which ask the allocator for nothing.
            self.problem.workspace = [0] * len(self.problem)

    @cached_property
    def fingerprint(self) -> str:
        """Of the graph as it was traced."""
        return fingerprint(self.flat, self.step.argument_shapes)

    def attempt(self, answer: Answer, tell: Progress, label: str | None, budget_bytes: int | None = None) -> Attempt:
        """Rewrite the step as an answer says, and look at it as at any other."""
        rewrite = realize(self.work, self.problem, answer.course, self.compiled)
        redefined = Redefined(self.concrete, apply(self.flat, rewrite))
        register(redefined)
        after = self.step.redefined(redefined, tell, budget_bytes).tide(self.step.batch_size, tell, label)
        return Attempt(answer, rewrite, redefined, after)


@dataclass
class Attempt:
    """A step as rewritten, and its tide."""

    answer: Answer
    rewrite: Rewrite
    redefined: Redefined
    after: Tide


def _search(ground: Ground, budget_bytes: int, tell: Progress, label: str | None) -> Plan:
    """Search with the planner's own model, look at the result as it would run, and correct the aim."""
    problem = ground.problem
    aim = int(budget_bytes / (1.0 + FIRST_MARGIN))
    best: Attempt | None = None
    smallest, closest = ground.before.safe_bytes, None
    seen: set[tuple[int, ...]] = set()
    for _ in range(MOST_ATTEMPTS):
        tell("searching for a plan")
        answer = lower(problem, aim, effort=QUICK_EFFORT)
        if answer.within and answer.flood.extra_us > WORTH_AN_EFFORT * problem.total_us:
            answer = lower(problem, aim)
        if (course := tuple(answer.course)) in seen:
            break
        seen.add(course)
        tell("tracing the planned step")
        attempt = ground.attempt(answer, tell, label, budget_bytes)
        sure = attempt.after.safe_bytes
        smallest, closest = min(smallest, sure), attempt
        fits = sure <= budget_bytes
        if fits and (best is None or answer.flood.extra_us <= best.answer.flood.extra_us):
            best = attempt
        unused = budget_bytes - sure
        good = fits and (unused <= UNUSED_SHARE * budget_bytes or not answer.recomputed)
        if good or not (fits or answer.within):
            break
        # The planner's figure and the sure limit stand in about the same proportion next time.
        base = problem.base_bytes
        aim = base + int((answer.flood.peak_bytes - base) * (budget_bytes - base) / max(sure - base, 1) * 0.98)
    if best is None:
        points = _frontier(ground, closest) if closest is not None else ()
        raise NoPlanError("no plan reaches the budget", budget_bytes, smallest, points, before=ground.before)
    return _plan_of(ground, budget_bytes, best)


def _plan_of(ground: Ground, budget_bytes: int, best: Attempt) -> Plan:
    problem, redefined = ground.problem, best.redefined
    compiled, total_bytes = ground.compiled, best.after.safe_bytes
    return Plan(
        target=best.after.target,
        budget_bytes=budget_bytes,
        before=ground.before,
        after=best.after,
        slowdown=best.answer.flood.extra_us / max(problem.total_us, 1e-9),
        actions=_actions(ground, best),
        frontier=_frontier(ground, best),
        rewrite=best.rewrite,
        fingerprint=ground.fingerprint,
        bind=lambda: planned_callable(redefined, compiled, total_bytes),
    )


def _actions(ground: Ground, best: Attempt) -> tuple[Action, ...]:
    graph, problem = ground.work.graph, ground.problem
    belongings = ground.step.belongings
    layer = layer_finder(ground.concrete, belongings.layers, belongings.kinds)
    actions = []
    for again in best.answer.recomputed:
        name = graph.names[problem.nodes[again.task]]
        reason = "computed again where the backward pass needs it, not kept until then"
        op = graph.ops[problem.nodes[again.task]]
        actions.append(Action(RECOMPUTE, name, op, layer(name), again.saves_bytes, again.cost_us, reason))
    actions.sort(key=lambda action: -action.saves_bytes)
    ops = dict(zip(graph.names, graph.ops, strict=True))
    copies = dict(best.rewrite.copies)
    for earlier, later in best.rewrite.controls:
        original = copies.get(later, later)
        actions.append(Action(ORDER, later, ops[original], layer(original), 0, 0.0, f"runs after {earlier}"))
    return tuple(actions)


def _frontier(ground: Ground, best: Attempt) -> tuple[FrontierPoint, ...]:
    """What other budgets would cost, with the distance between the planner's figure and the sure limit as found."""
    problem = ground.problem
    factor = best.after.safe_bytes / max(best.answer.flood.peak_bytes, 1)
    return tuple(
        FrontierPoint(int(peak * factor), extra_us / max(problem.total_us, 1e-9), recomputed)
        for peak, extra_us, recomputed in frontier(problem)
    )


def load_plan(path: str | PathLike[str], target: Any = None, *specs: Any, batch_size: int | None = None) -> Plan:
    """Read a plan and tie it to its step, which must be the one that it was made for."""
    stored = Plan.load(path)
    if target is None:
        return stored
    if batch_size is None and not specs:
        batch_size = stored.batch_size
    step = find_step(target, specs, batch_size, None, exactly=True)
    concrete = step.concrete
    if stored.changes_nothing:
        return dataclasses.replace(stored, bind=lambda: concrete)
    flat = flat_step(step)
    if fingerprint(flat, step.argument_shapes) != stored.fingerprint:
        raise LowtideError(
            "the plan was made for another graph",
            given=f"{path}, made for {stored.target}",
            cure="plan again: lt.plan(...) with this step and these shapes",
        )
    redefined = Redefined(concrete, apply(flat, stored.rewrite))
    compiled = isinstance(step, CompiledStep)
    return dataclasses.replace(stored, bind=lambda: planned_callable(redefined, compiled, stored.peak_bytes))
