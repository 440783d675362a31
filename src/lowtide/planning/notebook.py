"""A plan in a notebook: the step before and after, and what other budgets cost, drawn without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lowtide.tide.notebook import SAND, SEA, draw_curves
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes

_POINTS = 8


def render(
    target: str,
    summary: str,
    before: Tide | None,
    after: Tide,
    budget_bytes: int,
    costs: Sequence[tuple[str, str]],
) -> str:
    """Return an HTML fragment that reads well on light and dark notebooks.

    `before` is None for a plan that changes nothing. `costs` are budgets and what each costs in time.
    """
    curves = [(after, SEA)] if before is None else [(before, SAND), (after, SEA)]
    return (
        f'<div style="font-family:system-ui,sans-serif">'
        f"<div><b>{escape(target)}</b> in {format_bytes(budget_bytes)}</div>"
        f"<div>{escape(summary)}</div>"
        f"{draw_curves(curves, budget_bytes)}{_cost_table(costs)}</div>"
    )


def _cost_table(costs: Sequence[tuple[str, str]]) -> str:
    step = max(1, -(-len(costs) // _POINTS))
    rows = "".join(
        f'<tr><td style="text-align:right">{budget}</td><td style="text-align:right">{slowdown}</td></tr>'
        for budget, slowdown in costs[::step]
    )
    return f"<table><tr><th>budget</th><th>time</th></tr>{rows}</table>" if rows else ""
