"""`lt.plan`: search for a plan of a step, verified by a trace of the rewritten step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

import keras

from lowtide.errors import LowtideError
from lowtide.planning.allowance import check_allow
from lowtide.planning.measured_costs import ESTIMATED, MeasuredTimes, Recorded, measured_times
from lowtide.planning.plan import ORDER, FrontierPoint, Held, NoPlanError, Plan
from lowtide.planning.plan_search import search_order, search_plan, with_room
from lowtide.planning.tuning import TUNING
from lowtide.planning.variant_pruning import VariantPruning
from lowtide.progress import Progress, ProgressCallback
from lowtide.simulator.tuning import SAFE_BYTES, SAFE_SPREAD_IN_ORDER
from lowtide.tf.plan.apply_rewrite import Redefined, apply, fingerprint, planned_callable
from lowtide.tf.plan.planning_context import PlanningContext, flat_step
from lowtide.tf.plan.variants import Variant, allowable, check_only, variants_of
from lowtide.tf.trace.predict import check_batch_size
from lowtide.tf.trace.step import Step
from lowtide.tf.trace.step_cache import find_step, trace_model
from lowtide.tf.trace.trace import without_garbage_collection
from lowtide.tf.trace.xla.step import CompiledStep
from lowtide.tide.tide import Tide
from lowtide.units import parse_bytes


def plan(
    target: Any,
    *specs: Any,
    budget: str | int | None = None,
    batch_size: int | None = None,
    allow: Sequence[str] = (),
    only: str | None = None,
    recorded: Recorded | None = None,
    progress: ProgressCallback | None = None,
    label: str | None = None,
) -> Plan:
    """Find a way to run a step within a budget: of a compiled Keras model, or of a function with its specs.

    With `only="order"` nothing is rematerialized: the step runs in the order with the lowest peak that was found, which
    costs nothing, and the budget is what that takes. With `only="recompute"` the batch is not split, so results are the
    same bit for bit. Costs of ops come from a `recorded` step of lt.measure or lowtide run, if one is given.
    """
    check_batch_size(batch_size)
    allowed = check_allow(allow)
    times = measured_times(recorded)
    step = find_step(target, specs, batch_size, progress, exactly=True)
    if only == ORDER or budget is None:
        return _order_only(step, batch_size, budget, only, progress, label)
    check_only(only)
    budget_bytes = parse_bytes(budget)
    if not isinstance(target, keras.Model):
        return plan_step(step, batch_size, budget_bytes, progress, label, times)

    def build_step(variant: Variant) -> Step:
        if variant.is_plain:
            return step
        return trace_model(target, specs, batch_size, variant.train_step, progress)

    variants = variants_of(target, allowed, step.batch_size, only)
    more = allowable(target, allowed)
    return plan_first(variants, build_step, step.batch_size, budget_bytes, more, progress, label, times)


def plan_first(
    variants: Iterable[Variant],
    build_step: Callable[[Variant], Step],
    batch_size: int | None,
    budget_bytes: int,
    more: tuple[str, ...],
    progress: ProgressCallback | None,
    label: str | None,
    times: MeasuredTimes | None = None,
) -> Plan:
    """Plan the first variant of a model's step that fits; `more` is what else could be allowed.

    If that plan is expensive, variants with more micro-batches are tried too. If none fits, the one that came closest
    is searched thoroughly.
    """
    candidates = list(variants)
    before: Tide | None = None
    closest: NoPlanError | None = None
    closest_variant: Variant | None = None
    best: Plan | None = None
    plain: Step | None = None
    untried: int | None = None
    pruning = VariantPruning(budget_bytes)

    def searches() -> Iterator[tuple[Variant, bool]]:
        """Yield variants, each with whether its search is thorough."""
        yield from ((candidate, len(candidates) == 1) for candidate in candidates)
        if best is None and closest_variant is not None and len(candidates) > 1:
            yield closest_variant, True

    for variant, thorough in searches():
        if best is not None and (not _is_expensive(best) or variant.precision != best.precision):
            break
        if not thorough and pruning.is_hopeless(variant.pieces, variant.precision):
            untried = untried or (variant.pieces if variant.pieces > 1 else None)
            continue
        with variant.meanwhile():
            try:
                # The recording is of the plain step.
                timed = times if variant.is_plain else None
                step = build_step(variant)
                plain = plain or step
                made = plan_step(step, batch_size, budget_bytes, progress, label, timed, thorough)
            except NoPlanError as error:
                before = before or error.before
                pruning.note(variant.pieces, variant.precision, error)
                if error.smallest_bytes is None:
                    # Precision and micro-batches lower nothing of what is there before the step.
                    raise
                # A thorough search confirms the smallest plan that it names.
                if closest is None or thorough or error.smallest_bytes < (closest.smallest_bytes or 0):
                    closest, closest_variant = error, variant
                continue
            except LowtideError:
                # Only a trace shows whether a loss can be split.
                if variant.pieces == 1:
                    raise
                pruning.splits = False
                continue
        before = before or made.before
        known = best or closest
        made = _as_variant(made, variant, before, _longer(step, plain), known.frontier if known else made.frontier)
        if best is not None and made.slowdown + TUNING.split_gain * (best.pieces == 1) >= best.slowdown:
            break
        best = made
    if best is not None:
        return best
    assert closest is not None
    untried = untried if pruning.splits else None
    raise NoPlanError(
        closest.problem, budget_bytes, closest.smallest_bytes, closest.frontier, more, before, untried
    ) from closest


def _is_expensive(made: Plan) -> bool:
    return made.slowdown > (TUNING.expensive_share if made.pieces == 1 else TUNING.expensive_split)


def _longer(step: Step, plain: Step | None) -> float:
    """Return the modelled time of a variant as a multiple of the plain step's: many small ops take longer."""
    own_us, plain_us = (getattr(each, "cost_us", None) for each in (step, plain))
    return max(1.0, own_us / plain_us) if own_us and plain_us else 1.0


def _as_variant(made: Plan, variant: Variant, before: Tide, longer: float, frontier: Sequence[FrontierPoint]) -> Plan:
    """Return the plan of a variant as a plan of the plain step, with that step's frontier."""
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
        # Steps without an enforced order vary even more.
        after=with_room(made.after, made.budget_bytes) if made.changes_nothing else made.after,
        slowdown=(1.0 + made.slowdown) * longer - 1.0,
        actions=(*variant.actions(), *made.actions),
        frontier=frontier,
        pieces=variant.pieces,
        precision=variant.precision,
        notes=(*(made.notes or (ESTIMATED,)), *variant.notes),
        bind=settled,
    )


def plan_step(
    step: Any,
    batch_size: int | None,
    budget_bytes: int,
    progress: ProgressCallback | None = None,
    label: str | None = None,
    times: MeasuredTimes | None = None,
    thorough: bool = True,
) -> Plan:
    """Plan a traced step; a search that is not `thorough` gives up sooner."""
    on_progress = progress or (lambda text: None)
    before = step.tide(batch_size, progress, label)
    if before.safe_bytes <= budget_bytes:
        concrete = step.concrete
        return Plan(before.target, budget_bytes, before, before, 0.0, bind=lambda: concrete)
    _check_floor(before, budget_bytes)
    on_progress(Progress("looking at the graph"))
    with without_garbage_collection():
        context = PlanningContext(step, before, on_progress, label, times)
        return context.plan_of(search_plan(context, budget_bytes, on_progress, thorough), budget_bytes)


def _order_only(
    step: Step,
    batch_size: int | None,
    budget: str | int | None,
    only: str | None,
    progress: ProgressCallback | None,
    label: str | None,
) -> Plan:
    """Plan the best order of a step."""
    if only != ORDER or budget is not None:
        given = f"budget={budget!r}, only={only!r}"
        raise LowtideError("a plan needs a budget, or only='order' without one", given=given, cure='try budget="4GiB"')
    if isinstance(step, CompiledStep):
        raise LowtideError("XLA chooses the order of a compiled step itself", given=step.label, cure="give a budget")
    before = step.tide(batch_size, progress, label)
    on_progress = progress or (lambda text: None)
    with without_garbage_collection():
        context = PlanningContext(step, before, on_progress, label)
        attempt = search_order(context)
        return context.plan_of(attempt, attempt.after.safe_bytes)


def _check_floor(before: Tide, budget_bytes: int) -> None:
    if Held.of(before).total_bytes >= budget_bytes:
        raise NoPlanError(
            "the budget is below what is there before the step begins: variables, optimizer state and the batch",
            budget_bytes,
            None,
            before=before,
        )


def load_plan(path: str | PathLike[str], target: Any = None, *specs: Any, batch_size: int | None = None) -> Plan:
    """Read a plan and bind it to its step, which must be the one that it was made for."""
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
    needed_bytes = min(stored.peak_bytes, int(stored.after.peak_bytes * (1.0 + SAFE_SPREAD_IN_ORDER)) + SAFE_BYTES)
    return dataclasses.replace(stored, bind=lambda: planned_callable(redefined, compiled, needed_bytes))
