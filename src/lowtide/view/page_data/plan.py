"""What the page draws of a plan, as plain data."""

from dataclasses import asdict
from typing import Any

from lowtide.planning.plan import Action, FrontierPoint
from lowtide.view.axis import COLOURS
from lowtide.view.page_data.tide import named_curve_data
from lowtide.view.reports.frontier import Frontier, point_text
from lowtide.view.reports.plan import DONE, PlanReport, total_of

_FRONTIER_POINTS = 200
# A browser lists this many actions without delay; the others save least, and only the total contains them.
_ACTIONS = 5000


def plan_data(report: PlanReport) -> dict[str, Any]:
    """Return the answers, the curves, the frontier, the actions, how to use the plan, and the notes."""
    plan, frontier = report.plan, report.frontier
    return {
        "title": report.title,
        "budget_bytes": plan.budget_bytes,
        "curves": {
            "peaks": report.peaks_line,
            "budget_bytes": plan.budget_bytes,
            "top_bytes": report.top_bytes,
            "curves": [named_curve_data(*curve) for curve in report.curves],
        },
        "frontier": _frontier_data(frontier) if frontier.worth_showing else None,
        "summary": plan.summary(),
        "fits": report.after.fits,
        "answers": [asdict(answer) for answer in report.answers],
        "layers": [{"layer": layer} | asdict(total) for layer, total in report.by_layer()],
        "actions": [_action_data(action) for action in report.actions[:_ACTIONS]],
        "total": asdict(total_of(report.actions)),
        "usage": [{"code": code, "purpose": purpose} for code, purpose in report.usage],
        "method": report.after.method_line,
        "notes": report.notes,
    }


def _action_data(action: Action) -> dict[str, Any]:
    return {
        "what": DONE.get(action.kind, action.kind),
        "layer": action.layer or "(no layer)",
        "op": action.op,
        "node": action.subject,
        "saves_bytes": action.saves_bytes,
        "costs_us": round(action.costs_us, 3),
        "reason": action.reason,
    }


def _frontier_data(frontier: Frontier) -> dict[str, Any]:
    def plain(point: FrontierPoint) -> dict[str, Any]:
        return {"bytes": point.peak_bytes, "slowdown": point.slowdown, "recomputed": point.recomputed}

    def named(point: FrontierPoint) -> dict[str, Any]:
        note = frontier.describe(point)
        words = point_text(point) + (f", {note}" if note else "")
        names = {"name": frontier.name_of(point), "note": note}
        return plain(point) | names | {"chosen": point == frontier.chosen, "words": words}

    return {
        "colour": COLOURS["workspace"],
        "top_bytes": frontier.top_bytes,
        "top_slowdown": frontier.top_slowdown,
        "steps": [plain(point) for point in frontier.points],
        "points": [named(point) for point in frontier.rows(_FRONTIER_POINTS)],
    }
