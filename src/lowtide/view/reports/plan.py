"""What is shown of a plan: the answer, its actions by layer, what other budgets cost, and how to use it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lowtide.planning.plan import MICROBATCH, ORDER, PRECISION, RECOMPUTE, Action, Plan, format_slowdown
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes, parse_bytes
from lowtide.view.axis import AFTER_COLOUR, BEFORE_COLOUR, axis_top
from lowtide.view.reports.answer_card import AnswerCard
from lowtide.view.reports.frontier import Frontier
from lowtide.view.reports.tide import TideReport

_TIMES = (("s", 1e6), ("ms", 1e3), ("µs", 1.0))

DONE = {RECOMPUTE: "recompute", ORDER: "reorder", MICROBATCH: "split", PRECISION: "cast"}


@dataclass(frozen=True)
class Total:
    """The savings and costs of several actions together."""

    actions: int
    saves_bytes: int
    costs_us: float


@dataclass(frozen=True)
class PlanReport:
    """A plan, how many of its actions are listed, and the file that it was saved to, if any."""

    plan: Plan
    top: int = 10
    file: str | None = None

    @property
    def title(self) -> str:
        """The target, with its batch size if it has one."""
        batch = self.plan.batch_size
        return self.plan.target if batch is None else f"{self.plan.target} · batch {batch:,}"

    @property
    def top_bytes(self) -> int:
        """The end of the axis of bytes."""
        before, after = self.plan.before, self.plan.after
        return axis_top(max(before.peak_bytes, after.peak_bytes), after.safe_bytes, self.plan.budget_bytes)

    @property
    def curves(self) -> list[tuple[Tide, str, str]]:
        """The tides to draw, each with its name and colour; one if the plan changes nothing."""
        if self.plan.changes_nothing:
            return [(self.plan.before, "as it is", AFTER_COLOUR)]
        return [(self.plan.before, "before", BEFORE_COLOUR), (self.plan.after, "after", AFTER_COLOUR)]

    @cached_property
    def frontier(self) -> Frontier:
        """What other budgets would cost."""
        return Frontier.of(self.plan)

    @property
    def after(self) -> TideReport:
        """The report of the planned step."""
        return TideReport(self.plan.after, self.plan.budget_bytes, top=self.top)

    @property
    def peaks_line(self) -> str:
        """The expected peaks, which the curves show; the answer compares safe bounds."""
        before, after = self.plan.before, self.plan.after
        if self.plan.changes_nothing:
            return f"peak {format_bytes(before.peak_bytes)}, safe bound {format_bytes(before.safe_bytes)}"
        return (
            f"peak {format_bytes(before.peak_bytes)} -> {format_bytes(after.peak_bytes)}, "
            f"safe bound {format_bytes(before.safe_bytes)} -> {format_bytes(after.safe_bytes)}"
        )

    @property
    def answers(self) -> list[AnswerCard]:
        """The answers, from what it took to what it changes."""
        plan, after = self.plan, self.after
        kept = f"{after.verdict}; peak {format_bytes(plan.after.peak_bytes)} at {plan.after.peak_place}"
        if plan.changes_nothing:
            return [AnswerCard("As it is", format_bytes(plan.peak_bytes), kept, after.fits)]
        held = f"safe bound as it is; peak {format_bytes(plan.before.peak_bytes)} at {plan.before.peak_place}"
        changed = "Changed" if plan.changes_results else "Unchanged"
        return [
            AnswerCard("Before", format_bytes(plan.before.safe_bytes), held),
            AnswerCard("With this plan", format_bytes(plan.peak_bytes), kept, after.fits),
            AnswerCard("Time", format_slowdown(plan.slowdown), plan.changes()),
            AnswerCard("Results", changed, self.results_text),
        ]

    @property
    def results_text(self) -> str:
        """What the plan does to the results of the step."""
        plan, changed = self.plan, []
        if plan.pieces > 1:
            changed.append(
                f"a batch is computed in {plan.pieces:,} micro-batches and applied once: the same up to rounding, "
                "but for layers that look at the whole batch, as BatchNormalization does"
            )
        if plan.precision is not None:
            changed.append(f"layers compute in {plan.precision}")
        twice = ", some of them twice" if plan.recomputed else ""
        return "; ".join(changed) or f"the same operations on the same numbers{twice}"

    @property
    def results_line(self) -> str:
        """What the plan does to the results of the step, as a line of its own."""
        return self.results_text if self.plan.changes_results else f"unchanged: {self.results_text}"

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """What is done, from what saves most to what saves least."""
        return tuple(sorted(self.plan.actions, key=lambda action: (-action.saves_bytes, -action.costs_us)))

    @property
    def rest(self) -> Total:
        """The actions that are not listed."""
        return total_of(self.actions[self.top :])

    def by_layer(self) -> list[tuple[str, Total]]:
        """Return what is saved and spent in each layer, the most saved first."""
        layers: dict[str, list[Action]] = {}
        for action in self.actions:
            layers.setdefault(action.layer or "(no layer)", []).append(action)
        totals = [(layer, total_of(actions)) for layer, actions in layers.items()]
        return sorted(totals, key=lambda row: (-row[1].saves_bytes, -row[1].costs_us))

    @property
    def usage(self) -> list[tuple[str, str]]:
        """How to run the step so: code, and what it is for."""
        if self.plan.changes_nothing:
            return []
        arguments = f"budget={_code(self.plan.budget_bytes)}{self._allow}"
        lines = [
            (f"lt.fit_in(model, {arguments})", "then model.fit(...) as always"),
            (f"@lt.function({arguments})", "for your own step"),
        ]
        if self.file is not None:
            lines.append((f"lt.load_plan({_quoted(self.file)}, step, *specs).apply()", "without a search"))
        return lines

    @property
    def _allow(self) -> str:
        allowed = ["microbatch"] * (self.plan.pieces > 1)
        if self.plan.precision is not None:
            allowed.append(self.plan.precision.removeprefix("mixed_"))
        names = ", ".join(map(_quoted, allowed)) + "," * (len(allowed) == 1)
        return f", allow=({names})" if allowed else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """The plan's notes and those of its tides, each once."""
        plan = self.plan
        return tuple(dict.fromkeys((*plan.notes, *plan.before.notes, *plan.after.notes)))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return self.plan.to_dict(top=self.top)


def total_of(actions: Iterable[Action]) -> Total:
    """Add actions up."""
    listed = list(actions)
    return Total(len(listed), sum(action.saves_bytes for action in listed), sum(action.costs_us for action in listed))


def format_time(microseconds: float) -> str:
    """Return a duration as a person reads it: "1.23 s", "38.2 ms", "950 µs"; nothing is "0"."""
    if microseconds < 0.5:
        return "0"
    unit, size = next((unit, size) for unit, size in _TIMES if microseconds >= 0.9995 * size or size == 1)
    amount = microseconds / size
    return f"{amount:,.0f} {unit}" if amount >= 99.95 else f"{amount:.3g} {unit}"


def _code(amount: int) -> str:
    """Return a number of bytes as it is written in a program: "3GiB" where that is exact."""
    text = format_bytes(amount).replace(" ", "")
    return _quoted(text) if parse_bytes(text) == amount else str(amount)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
