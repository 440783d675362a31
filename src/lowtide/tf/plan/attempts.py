"""Attempts at a plan: search with the planner's own figures, look at the result as it would run, and aim again."""

from __future__ import annotations

import dataclasses

from lowtide.planning.plan import ORDER, RECOMPUTE, Action, FrontierPoint, NoPlanError, Outlook, Plan
from lowtide.planning.remat.remat_search import Answer, frontier, lower
from lowtide.planning.remat.target_search import LOWER_AIMS, Aims
from lowtide.planning.rewrite.concurrency import FIRM, IDLE, LOOSE, NONE, TIGHTER, Leeway
from lowtide.progress import Progress, ProgressCallback
from lowtide.simulator.tuning import SAFE_BYTES
from lowtide.tf.plan.apply_rewrite import planned_callable
from lowtide.tf.plan.planning_context import Attempt, Ground
from lowtide.tf.trace.layer_origins import make_layer_finder
from lowtide.tide.tide import Tide

# More attempts are made where none of the first fits: what the allocator's pieces take goes up and down in jumps.
MOST_ATTEMPTS, MOST_WITHOUT_A_PLAN = 4, 8
# After so many the step is held to the letter, which costs more than most of what is computed again.
PATIENCE = 6
# A loose attempt that misses by less than this share of the room is followed by one that aims lower, and is as loose.
NEAR = 0.12
# Where the first aim is too low for any course, one that takes this share of the room by itself is tried first.
HIGH = 0.9
# Each that does not fit lowers the aim by this share more than the one before, or by what it missed if that is less.
MISSED_SHARE = 0.05
# An attempt that leaves less than this of the budget unused is good enough.
UNUSED_SHARE = 0.06
# So is one that costs less than this share of the step, times the attempts: after some there is less to gain.
CHEAP, CHEAP_COMPILED = 0.05, 0.03
# What costs more than this share of the step is dear, and more than `CHEAP` where the budget is not used up: courses
# that lie so far between it and `HIGH` are tried too, from above, since fewer copies cost less.
DEAR, BETWEEN = 0.1, (0.5, 0.25, 0.1)
# Where pieces of the allocator's memory are not split, their whole counts as used: recorded steps came up to 18% higher
# than the simulated median.
ROOM_SHARE = 0.25
# Steps are alike whose peaks differ by no more than this share.
ALIKE = 0.004


def search(ground: Ground, budget_bytes: int, tell: ProgressCallback, label: str | None) -> Plan:
    """Search with the planner's own model, look at the result as it would run, and correct the aim."""
    problem = ground.problem
    room = ground.room(budget_bytes)
    aim = ground.first_aim(budget_bytes, room)
    # A compiler runs what it likes when it likes.
    leeway = NONE if ground.compiled else LOOSE
    most = MOST_ATTEMPTS if ground.compiled else MOST_WITHOUT_A_PLAN
    best: Attempt | None = None
    smallest, closest = ground.before.safe_bytes, None
    aims = Aims(problem, tell)
    tight_us = IDLE * problem.total_us
    answer: Answer | None = None
    misses, is_settled = 0, False
    for number in range(1, most + 1):
        if best is not None and number > MOST_ATTEMPTS:
            break
        if not is_settled:
            # Each search goes on from what the one before found.
            # Where one fits, a lower one costs more.
            found = aims.take(aim, answer, LOWER_AIMS if best is None else 0)
            if best is not None and (found is None or found.flood.extra_us >= best.extra_us):
                break
            if answer is None and found is not None and not found.within and not ground.compiled:
                # The lowest course need not take least: it has most copies, and their pieces lie in each other's way.
                higher = aims.take(problem.base_bytes + int(HIGH * room))
                if higher is not None and higher.within:
                    aims.put_back(found)
                    found = higher
            elif answer is not None and found is not None and _prefers_tighter(answer, found, leeway, tight_us):
                # It comes up again if that misses.
                aims.put_back(found)
                found = None
            if found is None:
                if closest is None or leeway is NONE:
                    break
                leeway = TIGHTER[leeway]
            answer = found or answer
        assert answer is not None
        tell(Progress(f"tracing the planned step, attempt {number}"))
        attempt = ground.attempt(answer, tell, label, budget_bytes, leeway)
        sure = attempt.after.safe_bytes
        smallest, closest = min(smallest, sure), attempt
        fits = sure <= budget_bytes
        if fits and (best is None or attempt.extra_us <= best.extra_us):
            best = attempt
        if best is not None and (_is_good(ground, best, budget_bytes, number) or not answer.within):
            break
        missed = (sure - budget_bytes) / max(room, 1)
        # The same course, held tighter, costs some time; a lower aim may cost more.
        is_settled = best is None and _wants_holding(answer, leeway, number, missed)
        if is_settled:
            leeway = TIGHTER[leeway]
            continue
        if not (fits or answer.within):
            break
        misses += not fits
        aim = ground.next_aim(answer.flood.peak_bytes, attempt.used_bytes, room)
        if not (fits or ground.compiled):
            aim -= int(misses * min(missed, MISSED_SHARE) * (aim - problem.base_bytes))
    if best is None:
        points = _outlook(ground, closest) if closest is not None else ()
        raise NoPlanError("no plan reaches the budget", budget_bytes, smallest, points, before=ground.before)
    return plan_of(ground, budget_bytes, _cheaper(ground, budget_bytes, best, aims, tell, label))


def _cheaper(
    ground: Ground, budget_bytes: int, best: Attempt, aims: Aims, tell: ProgressCallback, label: str | None
) -> Attempt:
    """The attempt, or one with fewer copies, where that fits and the attempt is dear.

    What the allocator's pieces take goes up and down in jumps: a course between two that missed may fit.
    """
    problem = ground.problem
    lowest, highest = best.answer.flood.peak_bytes, problem.base_bytes + HIGH * ground.room(budget_bytes)
    dear = CHEAP if best.after.safe_bytes < (1 - UNUSED_SHARE) * budget_bytes else DEAR
    if ground.compiled or best.extra_us <= dear * problem.total_us:
        return best
    for part in BETWEEN:
        answer = aims.take(int(lowest + part * (highest - lowest)), best.answer, lower_aims=0)
        if answer is None or not answer.within or answer.flood.extra_us >= best.extra_us:
            continue
        tell(Progress("tracing the planned step, with fewer copies"))
        attempt = ground.attempt(answer, tell, label, budget_bytes, FIRM)
        if attempt.after.safe_bytes <= budget_bytes and attempt.extra_us < best.extra_us:
            return attempt
    return best


def _prefers_tighter(answer: Answer, lowest: Answer, leeway: Leeway, tight_us: float) -> bool:
    """Whether the last course is held tighter before the lowest is tried, which has more copies."""
    if not answer.within or lowest.within:
        return False
    # With none at all it costs as much as many copies.
    return leeway is LOOSE or (leeway is FIRM and lowest.flood.extra_us > answer.flood.extra_us + tight_us)


def _wants_holding(answer: Answer, leeway: Leeway, number: int, missed: float) -> bool:
    """Whether an attempt that missed, by some share of the room, is held tighter before a lower aim is taken."""
    if leeway is NONE:
        return False
    if not answer.within or number >= PATIENCE:
        return True
    return leeway is LOOSE and (number > 1 or missed > NEAR)


def in_order(ground: Ground, tell: ProgressCallback, label: str | None) -> Plan:
    """The step in its best order, with the leeway that leaves its steps most alike.

    Not with none: that costs up to two thirds of the time, and it is time that order alone is to save.
    """
    answer = lower(ground.problem, ground.before.peak_bytes << 10)
    best: Attempt | None = None
    for leeway in (LOOSE, FIRM):
        attempt = ground.attempt(answer, tell, label, leeway=leeway)
        # What is hardly more even is not worth its time.
        if best is None or attempt.spread < best.spread - ALIKE:
            best = attempt
        if best.spread <= ALIKE:
            break
    assert best is not None
    return plan_of(ground, best.after.safe_bytes, best)


def _is_good(ground: Ground, best: Attempt, budget_bytes: int, attempts: int) -> bool:
    """Whether to look no further: nearly all of the budget is used, or hardly any time is lost."""
    cheap = attempts * (CHEAP_COMPILED if ground.compiled else CHEAP)
    if best.extra_us <= cheap * ground.problem.total_us:
        return True
    return budget_bytes - best.after.safe_bytes <= UNUSED_SHARE * budget_bytes


def plan_of(ground: Ground, budget_bytes: int, best: Attempt) -> Plan:
    problem, redefined, compiled = ground.problem, best.redefined, ground.compiled
    # What the step surely needs, not the room beside it: the rest of the limit is for what else comes up.
    needed_bytes = best.after.safe_bytes
    after = best.after if compiled else with_room(best.after, budget_bytes)
    return Plan(
        target=best.after.target,
        budget_bytes=budget_bytes,
        before=ground.before,
        after=after,
        slowdown=best.extra_us / max(problem.total_us, 1e-9),
        actions=_actions(ground, best),
        frontier=_outlook(ground, best),
        rewrite=best.rewrite,
        fingerprint=ground.fingerprint,
        notes=ground.notes,
        bind=lambda: planned_callable(redefined, compiled, needed_bytes),
    )


def with_room(after: Tide, budget_bytes: int) -> Tide:
    """The tide with a promise that takes what the budget leaves, up to some share.

    A process whose limit is the budget does not run out; how high its steps come is less sure than that.
    """
    roomy = int(after.peak_bytes * (1.0 + ROOM_SHARE)) + SAFE_BYTES
    return dataclasses.replace(after, safe_bytes=max(after.safe_bytes, min(roomy, budget_bytes)))


def _actions(ground: Ground, best: Attempt) -> tuple[Action, ...]:
    graph, problem = ground.work.graph, ground.problem
    metadata = ground.step.metadata
    layer = make_layer_finder(ground.concrete, metadata.layers, metadata.kinds)
    actions = []
    for again in best.answer.recomputed:
        name = graph.names[problem.nodes[again.task]]
        reason = "computed again where the backward pass needs it, not kept until then"
        op = graph.ops[problem.nodes[again.task]]
        actions.append(Action(RECOMPUTE, name, op, layer(name), again.saves_bytes, again.cost_us, reason))
    actions.sort(key=lambda action: -action.saves_bytes)
    ops = dict(zip(graph.names, graph.ops, strict=True))
    copies, joints = dict(best.rewrite.copies), dict(best.rewrite.joints)
    waits: dict[str, list[str]] = {}
    for earlier, later in best.rewrite.controls:
        if later not in joints:
            waits.setdefault(later, []).append(f"all up to {joints[earlier]}" if earlier in joints else earlier)
    for later, waited in waits.items():
        original = copies.get(later, later)
        actions.append(Action(ORDER, later, ops[original], layer(original), 0, 0.0, f"runs after {', '.join(waited)}"))
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
