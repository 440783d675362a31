"""A plan as an SVG picture: the curves of the step before and after, and the budget."""

from html import escape

from lowtide.tide.tide import Tide
from lowtide.units import format_bytes
from lowtide.view.pictures.overlay import draw_line
from lowtide.view.pictures.svg_frame import HEIGHT, LEFT, WIDTH, draw_axis, draw_legend, draw_level, frame, x_of, y_of
from lowtide.view.reports.plan import PlanReport


def render_plan_picture(report: PlanReport) -> str:
    """Return the SVG text."""
    plan, top = report.plan, report.top_bytes
    parts = [
        f'<text class="ink big" x="{LEFT}" y="36">{escape(report.title)}</text>',
        f'<text class="muted" x="{LEFT}" y="60">{escape(plan.summary())}</text>',
        *draw_axis(top),
    ]
    for tide, name, colour in report.curves:
        parts += draw_line(tide, name, colour, top)
    if plan.budget_bytes <= top:
        # Little memory is in use at the start of a step, so the text has room there.
        text = f"budget {format_bytes(plan.budget_bytes)}"
        parts += draw_level("budget", "over", plan.budget_bytes, text, top, at_start=True)
    for tide, name, _ in report.curves:
        parts += _peak(tide, name, y_of(plan.budget_bytes, top), top)
    parts += draw_legend(
        [(f"{name} {format_bytes(tide.peak_bytes)}", colour) for tide, name, colour in report.curves], HEIGHT - 24
    )
    return frame(f"{report.title}: {plan.summary()}", parts)


def _peak(tide: Tide, name: str, budget: float, top: int) -> list[str]:
    x = x_of(tide.peak_event, len(tide.curve))
    y = y_of(int(tide.curve.bytes_in_use[tide.peak_event]), top)
    anchor = "start" if x < WIDTH / 2 else "end"
    # Above the dot, unless the line of the budget is there.
    above = not -5 < y - 12 - budget < 13
    at = f'x="{x:.1f}" y="{y - 12 if above else y + 32:.1f}" text-anchor="{anchor}"'
    return [f'<text class="place" {at}>{escape(f"{name}: {tide.peak_place}")}</text>']
