"""The frontier of memory against time: the points that a planner found, from the plain step to the smallest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from lowtide.planning.plan import FrontierPoint, NoPlanError, Plan, format_slowdown
from lowtide.units import format_bytes
from lowtide.view.axis import axis_top

AS_IT_IS, THIS_PLAN, SMALLEST, ESTIMATE = "as it is", "this plan", "smallest", "estimate"


@dataclass(frozen=True)
class Frontier:
    """Points, the requested budget, and which of the points are the plain step and the plan.

    `plain` and `chosen` were simulated; the others say whether they are the planner's own estimates.
    """

    found: Sequence[FrontierPoint]
    budget_bytes: int
    plain: FrontierPoint | None = None
    chosen: FrontierPoint | None = None

    @staticmethod
    def of(answer: Plan | NoPlanError) -> "Frontier":
        """Return the frontier of a plan, or of a search that found none."""
        plain = None if answer.before is None else FrontierPoint(answer.before.safe_bytes, 0.0, 0)
        chosen = None
        if isinstance(answer, Plan) and not answer.changes_nothing:
            chosen = FrontierPoint(answer.peak_bytes, answer.slowdown, answer.recomputed)
        return Frontier(answer.frontier, answer.budget_bytes, plain, chosen)

    @cached_property
    def points(self) -> tuple[FrontierPoint, ...]:
        """The Pareto-optimal points, from the most memory to the least, each slower than the one before."""
        kept: list[FrontierPoint] = []
        for point in sorted(self._all, key=lambda point: (point.peak_bytes, point.slowdown)):
            if not kept or point.slowdown < kept[-1].slowdown:
                kept.append(point)
        return tuple(reversed(kept))

    @property
    def _all(self) -> Iterable[FrontierPoint]:
        return (*self.found, *(point for point in (self.plain, self.chosen) if point is not None))

    @property
    def worth_showing(self) -> bool:
        """Whether there is more than one point."""
        return len(self.points) > 1

    @property
    def top_bytes(self) -> int:
        """Where the axis of memory ends."""
        return axis_top(max((point.peak_bytes for point in self._all), default=1), 0, self.budget_bytes)

    @property
    def top_slowdown(self) -> float:
        """Where the axis of time ends."""
        return max(0.01, *(point.slowdown for point in self._all)) * 1.1

    def slowdown_at(self, budget_bytes: float) -> float | None:
        """Return the smallest slowdown that a budget allows; None if nothing fits it."""
        fitting = [point.slowdown for point in self.points if point.peak_bytes <= budget_bytes]
        return min(fitting, default=None)

    def name_of(self, point: FrontierPoint) -> str:
        """Return the name of a point; "" for a point without one."""
        names = ((self.plain, AS_IT_IS), (self.chosen, THIS_PLAN), (self.points[-1], SMALLEST))
        return next((name for named, name in names if point == named), "")

    def describe(self, point: FrontierPoint) -> str:
        """Return the name of a point, and whether it is an estimate."""
        return ", ".join(part for part in (self.name_of(point), ESTIMATE if point.is_estimate else "") if part)

    def rows(self, count: int) -> tuple[FrontierPoint, ...]:
        """Return about `count` points, evenly spaced in memory, including the plain step, the plan and both ends."""
        wanted = {point for point in (self.plain, self.chosen) if point is not None}
        wanted |= set(thin(self.points, count))
        return tuple(sorted(wanted, key=lambda point: (-point.peak_bytes, point.slowdown)))


def thin(points: Sequence[FrontierPoint], count: int) -> list[FrontierPoint]:
    """Return at most `count` points, nearly evenly spaced in memory, including both ends."""
    if len(points) <= max(count, 2):
        return list(points)
    high, low = points[0].peak_bytes, points[-1].peak_bytes
    steps = [high - (high - low) * step / (count - 1) for step in range(count)]
    near = [min(points, key=lambda point: abs(point.peak_bytes - size)) for size in steps]
    return list(dict.fromkeys(near))


def point_text(point: FrontierPoint) -> str:
    """Return a point in words: "2.93 GiB at +14% time, 38 tensors recomputed"."""
    recomputed = f", {point.recomputed:,} recomputed" if point.recomputed else ""
    return f"{format_bytes(point.peak_bytes)} at {format_slowdown(point.slowdown)} time{recomputed}"
