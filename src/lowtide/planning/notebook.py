"""A plan in a notebook: the step before and after, and what other budgets cost, drawn without scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from lowtide.tide.notebook import SAND, SEA, draw_curves
from lowtide.units import format_bytes

if TYPE_CHECKING:
    from lowtide.planning.plan import Plan

_POINTS = 8


def render(plan: Plan) -> str:
    """Return an HTML fragment that reads well on light and dark notebooks."""
    curves = [(plan.after, SEA)] if plan.changes_nothing else [(plan.before, SAND), (plan.after, SEA)]
    return (
        f'<div style="font-family:system-ui,sans-serif">'
        f"<div><b>{escape(plan.target)}</b> in {format_bytes(plan.budget_bytes)}</div>"
        f"<div>{escape(plan.summary())}</div>"
        f"{draw_curves(curves, plan.budget_bytes)}{_frontier(plan)}</div>"
    )


def _frontier(plan: Plan) -> str:
    from lowtide.planning.plan import format_slowdown

    step = max(1, -(-len(plan.frontier) // _POINTS))
    rows = "".join(
        f'<tr><td style="text-align:right">{format_bytes(point.peak_bytes)}</td>'
        f'<td style="text-align:right">{format_slowdown(point.slowdown)}</td></tr>'
        for point in plan.frontier[::step]
    )
    return f"<table><tr><th>budget</th><th>time</th></tr>{rows}</table>" if rows else ""
