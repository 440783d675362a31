"""Plan: how a step runs within a budget, found by search and vouched for by a trace of the result."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import keras
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.graph.kernels import with_kernels
from lowtide.planning.aim import take_aim
from lowtide.planning.allowance import check_allow
from lowtide.planning.fusion import fused_nodes
from lowtide.planning.hopes import Hopes
from lowtide.planning.order import lowest_order
from lowtide.planning.plan import ORDER, RECOMPUTE, Action, FrontierPoint, NoPlanError, Outlook, Plan
from lowtide.planning.problem import Problem, build_problem, measure
from lowtide.planning.realize import realize
from lowtide.planning.recompute import Answer, frontier, lower
from lowtide.planning.rewrite import Rewrite
from lowtide.planning.times import ESTIMATED, MeasuredTimes, Recorded, measured_times
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
# What costs more than this is dear: other ways are tried, and taken where they are cheaper by so much, for a batch in
# pieces sums in another order.
DEAR, WORTH_SPLITTING = 0.10, 0.03
# Compiling a step takes long: what costs less than this share of it is good enough.
WORTH_COMPILING = 0.03
# Ops that run a function are no stateful ops by their definition, but their functions may do anything.
_CALLS = frozenset("PartitionedCall If StatelessIf While StatelessWhile Case StatelessCase RemoteCall MapDefun".split())


def plan(
    target: Any,
    *specs: Any,
    budget: str | int | None = None,
    batch_size: int | None = None,
    allow: Sequence[str] = (),
    only: str | None = None,
    recorded: Recorded | None = None,
    progress: Progress | None = None,
    label: str | None = None,
) -> Plan:
    """Find a way to run a step within a budget: of a compiled Keras model, or of a function with its specs.

    With `only="order"` nothing is computed again: the step runs in the order with the lowest peak that was found, which
    costs nothing, and its budget is what that takes. What ops cost is taken from a `recorded` step where one is given,
    as lt.measure or lowtide run made it.
    """
    check_batch_size(batch_size)
    allowed = check_allow(allow)
    times = measured_times(recorded)
    step = find_step(target, specs, batch_size, progress, exactly=True)
    if only is not None or budget is None:
        return _order_only(step, batch_size, budget, only, progress, label)
    budget_bytes = parse_bytes(budget)
    if not isinstance(target, keras.Model):
        return plan_step(step, batch_size, budget_bytes, progress, label, times)

    def step_of(variant: Variant) -> Step:
        if variant.is_plain:
            return step
        return trace_model(target, specs, batch_size, variant.train_step, progress)

    variants = variants_of(target, allowed, step.batch_size)
    more = allowable(target, allowed)
    return plan_first(variants, step_of, step.batch_size, budget_bytes, more, progress, label, times)


def plan_first(
    variants: Iterable[Variant],
    step_of: Callable[[Variant], Step],
    batch_size: int | None,
    budget_bytes: int,
    more: tuple[str, ...],
    progress: Progress | None,
    label: str | None,
    times: MeasuredTimes | None = None,
) -> Plan:
    """Plan the first variant of a model's step that can be; `more` is what else might be allowed.

    Where that is dear, a batch in more pieces may be cheaper.
    """
    before: Tide | None = None
    closest: NoPlanError | None = None
    best: Plan | None = None
    plain: Step | None = None
    hopes = Hopes(budget_bytes)
    for variant in variants:
        if best is not None and (best.slowdown <= DEAR or variant.precision != best.precision):
            break
        if hopes.are_gone(variant.pieces, variant.precision):
            continue
        with variant.meanwhile():
            try:
                # What was recorded is the step as it is.
                timed = times if variant.is_plain else None
                step = step_of(variant)
                plain = plain or step
                made = plan_step(step, batch_size, budget_bytes, progress, label, timed)
            except NoPlanError as error:
                before = before or error.before
                hopes.note(variant.pieces, variant.precision, error)
                if closest is None or error.smallest_bytes < closest.smallest_bytes:
                    closest = error
                continue
            except LowtideError:
                # Whether a loss can be split shows only when it is traced.
                if variant.pieces == 1:
                    raise
                hopes.splits = False
                continue
        before = before or made.before
        made = _as_variant(made, variant, before, _longer(step, plain))
        if best is not None and made.slowdown + WORTH_SPLITTING > best.slowdown:
            break
        best = made
    if best is not None:
        return best
    assert closest is not None
    raise NoPlanError(closest.problem, budget_bytes, closest.smallest_bytes, closest.frontier, more) from closest


def _longer(step: Step, plain: Step | None) -> float:
    """How many times as long as the plain step a variant takes, by the cost model: many small ops take longer."""
    own_us, plain_us = (getattr(each, "cost_us", None) for each in (step, plain))
    return max(1.0, own_us / plain_us) if own_us and plain_us else 1.0


def _as_variant(made: Plan, variant: Variant, before: Tide, longer: float) -> Plan:
    """A plan of a variant, told as one of the step as it was."""
    if variant.is_plain:
        return made
    bind = made.bind

    def settled() -> Callable[..., Any]:
        assert bind is not None
        variant.settle()
        return bind()

    return dataclasses.replace(
        made,
        before=before,
        slowdown=(1.0 + made.slowdown) * longer - 1.0,
        actions=(*variant.actions(), *made.actions),
        pieces=variant.pieces,
        precision=variant.precision,
        notes=(*made.notes, *variant.notes),
        bind=settled,
    )


def plan_step(
    step: Any,
    batch_size: int | None,
    budget_bytes: int,
    progress: Progress | None = None,
    label: str | None = None,
    times: MeasuredTimes | None = None,
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
        ground = Ground(step, before, times)
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


def _devices(graph_def: Any) -> list[str]:
    """Where each node runs; what has no device before it is placed goes where most nodes are."""
    kinds = {name: tf.DeviceSpec.from_string(name) for name in {node.device for node in graph_def.node} if name}
    places = {name: f"{kind.device_type}:{kind.device_index or 0}" for name, kind in kinds.items()}
    found = [places.get(node.device) for node in graph_def.node]
    named = Counter(place for place in found if place is not None)
    usual = named.most_common(1)[0][0] if named else ""
    return [place or usual for place in found]


class Ground:
    """What a plan is made on: the flat graph of a step, and the problem that it poses."""

    def __init__(self, step: Any, before: Tide, times: MeasuredTimes | None = None) -> None:
        self.step = step
        self.before = before
        self.concrete = step.concrete
        self.compiled = isinstance(step, CompiledStep)
        self.flat = flat_step(step)
        graph = graph_from_def(self.flat.graph_def)
        if isinstance(step, SimulatedStep):
            for program in (step.program, *step.program.beside):
                graph = with_kernels(graph, program.graph)
        shapes = {index: tuple(shape) for index, shape in enumerate(step.argument_shapes) if shape is not None}
        self.work: Workload = build_workload(resolve_shapes(graph, self.flat.graph_def, shapes), fold=False)
        self.notes = self._take_times(times)
        smallest = max(int(before.peak_bytes * SMALL_SHARE), SMALLEST_BYTES)
        ops = set(self.work.graph.ops)
        stateful = frozenset(op for op in ops if op in _CALLS or is_stateful(op))
        self.order = lowest_order(self.work)
        fused = fused_nodes(self.work, step.written()) if self.compiled else frozenset()
        devices = None if self.compiled else _devices(self.flat.graph_def)
        held = int(before.curve.bytes_in_use[0])
        self.problem: Problem = build_problem(self.work, self.order.nodes, stateful, smallest, held, fused, devices)
        if self.compiled:
            # XLA has kernels of its own, which ask the allocator for nothing.
            self.problem.workspace = [0] * len(self.problem)

    def _take_times(self, times: MeasuredTimes | None) -> tuple[str, ...]:
        """Let ops cost what was measured; returns where costs come from."""
        if times is None:
            return (ESTIMATED,)
        if self.compiled:
            raise LowtideError(
                "XLA makes one op of many, so their times cannot be measured one by one",
                given=f"{self.before.target}, with times {times.source}",
                cure="plan it without a recording",
            )
        self.work.cost_us = times.costs_of(self.work, self.before)
        return times.notes(self.before)

    @cached_property
    def fingerprint(self) -> str:
        """Of the graph as it was traced."""
        return fingerprint(self.flat, self.step.argument_shapes)

    def attempt(self, answer: Answer, tell: Progress, label: str | None, budget_bytes: int | None = None) -> Attempt:
        """Rewrite the step as an answer says, and look at it as at any other."""
        rewrite = realize(self.work, self.problem, answer.course, self.compiled)
        redefined = Redefined(self.concrete, apply(self.flat, rewrite))
        register(redefined)
        step = self.step.redefined(redefined, tell, budget_bytes)
        after = step.tide(self.step.batch_size, tell, label)
        used = step.memory.temp_bytes if self.compiled else after.safe_bytes - self.problem.base_bytes
        return Attempt(answer, rewrite, redefined, after, used)

    def room(self, budget_bytes: int) -> int:
        """What a budget leaves for what comes on top of what is there anyway."""
        return self.step.room(budget_bytes) if self.compiled else budget_bytes - self.problem.base_bytes

    def first_aim(self, budget_bytes: int, room: int) -> int:
        """What to search for first; of a compiled step it is known what it takes as it is."""
        if not self.compiled:
            return int(budget_bytes / (1.0 + FIRST_MARGIN))
        plain = measure(self.problem, range(len(self.problem))).peak_bytes
        return self.next_aim(plain, self.step.memory.temp_bytes, room)

    def next_aim(self, peak_bytes: int, used_bytes: int, room: int) -> int:
        """What to aim at to take all the room: what is planned and used stand in about the same proportion next time.

        Or they lie as far apart, where XLA keeps what the planner does not see, such as filters in another layout.
        """
        planned = peak_bytes - self.problem.base_bytes
        aim = planned * room / max(used_bytes, 1)
        if self.compiled:
            aim = max(min(aim, planned + room - used_bytes), 0)
        return self.problem.base_bytes + int(aim * 0.98)


@dataclass
class Attempt:
    """A step as rewritten, and its tide."""

    answer: Answer
    rewrite: Rewrite
    redefined: Redefined
    after: Tide
    used_bytes: int
    """What it takes on top of what is there anyway."""


def _search(ground: Ground, budget_bytes: int, tell: Progress, label: str | None) -> Plan:
    """Search with the planner's own model, look at the result as it would run, and correct the aim."""
    problem = ground.problem
    room = ground.room(budget_bytes)
    aim = ground.first_aim(budget_bytes, room)
    best: Attempt | None = None
    smallest, closest = ground.before.safe_bytes, None
    seen: set[tuple[int, ...]] = set()
    answer: Answer | None = None
    for number in range(1, MOST_ATTEMPTS + 1):
        # Each search goes on from what the one before found.
        answer = take_aim(problem, aim, seen, answer, tell)
        if answer is None:
            break
        tell(f"tracing the planned step, attempt {number} of at most {MOST_ATTEMPTS}")
        attempt = ground.attempt(answer, tell, label, budget_bytes)
        sure = attempt.after.safe_bytes
        smallest, closest = min(smallest, sure), attempt
        fits = sure <= budget_bytes
        if fits and (best is None or answer.flood.extra_us <= best.answer.flood.extra_us):
            best = attempt
        if not (fits or answer.within) or (fits and _is_good(ground, attempt, budget_bytes)):
            break
        aim = ground.next_aim(answer.flood.peak_bytes, attempt.used_bytes, room)
    if best is None:
        points = _outlook(ground, closest) if closest is not None else ()
        raise NoPlanError("no plan reaches the budget", budget_bytes, smallest, points, before=ground.before)
    return _plan_of(ground, budget_bytes, best)


def _is_good(ground: Ground, attempt: Attempt, budget_bytes: int) -> bool:
    """Whether to look no further: nearly all of the budget is used, or hardly any time is lost."""
    answer = attempt.answer
    if ground.compiled and answer.flood.extra_us <= WORTH_COMPILING * ground.problem.total_us:
        return True
    return budget_bytes - attempt.after.safe_bytes <= UNUSED_SHARE * budget_bytes or not answer.recomputed


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
        frontier=_outlook(ground, best),
        rewrite=best.rewrite,
        fingerprint=ground.fingerprint,
        notes=ground.notes,
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


def _outlook(ground: Ground, best: Attempt) -> Outlook:
    """What other budgets would cost, with the distance between the planner's figure and the sure limit as found."""
    # A plan may live long: it keeps the problem for this, and nothing else of the ground.
    problem = ground.problem
    factor = best.after.safe_bytes / max(best.answer.flood.peak_bytes, 1)

    def find() -> tuple[FrontierPoint, ...]:
        return tuple(
            FrontierPoint(int(peak * factor), extra_us / max(problem.total_us, 1e-9), recomputed)
            for peak, extra_us, recomputed in frontier(problem)
        )

    return Outlook(find)


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
