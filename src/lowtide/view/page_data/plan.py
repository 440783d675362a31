"""What a page draws and lists of a plan, as plain data."""

from dataclasses import asdict
from typing import Any

from lowtide.planning.plan import Action, FrontierPoint
from lowtide.tide.tide import Tide
from lowtide.view.axis import COLOURS
from lowtide.view.page_data.tide import curve_data
from lowtide.view.reports.frontier import Frontier, point_text
from lowtide.view.reports.plan import DONE, PlanReport, total_of

_FRONTIER_POINTS = 200
# A browser lists so many without delay; what is beyond saves least, and is added up.
_ACTIONS = 5000


def plan_data(report: PlanReport) -> dict[str, Any]:
    """Return all that a page shows of a plan."""
    plan = report.plan
    return drawn_data(report) | {
        "title": report.title,
        "summary": plan.summary(),
        "fits": report.after.fits,
        "answers": [asdict(answer) for answer in report.answers],
        "peaks": report.peaks_line,
        "layers": [{"layer": layer} | asdict(total) for layer, total in report.by_layer()],
        "actions": [_action_data(action) for action in report.actions[:_ACTIONS]],
        "beyond": asdict(total_of(report.actions[_ACTIONS:])),
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


def drawn_data(report: PlanReport) -> dict[str, Any]:
    """Return what the charts draw."""
    frontier = report.frontier
    return {
        "budget_bytes": report.plan.budget_bytes,
        "top_bytes": report.top_bytes,
        "curves": [_curve_data(*curve) for curve in report.curves],
        "frontier": _frontier_data(frontier) if frontier.worth_showing else None,
    }


def _curve_data(tide: Tide, name: str, colour: str) -> dict[str, Any]:
    peak = {"peak_bytes": tide.peak_bytes, "peak_event": tide.peak_event}
    return {"name": name, "colour": colour} | peak | curve_data(tide)


def _frontier_data(frontier: Frontier) -> dict[str, Any]:
    def plain(point: FrontierPoint) -> dict[str, Any]:
        return {"bytes": point.peak_bytes, "slowdown": point.slowdown, "recomputed": point.recomputed}

    def named(point: FrontierPoint) -> dict[str, Any]:
        name = frontier.name_of(point)
        words = point_text(point) + (f", {name}" if name else "")
        return plain(point) | {"name": name, "chosen": point == frontier.chosen, "words": words}

    return {
        "colour": COLOURS["workspace"],
        "top_bytes": frontier.top_bytes,
        "top_slowdown": frontier.top_slowdown,
        "steps": [plain(point) for point in frontier.points],
        "points": [named(point) for point in frontier.rows(_FRONTIER_POINTS)],
    }
