"""HTML for notebooks: a tide and the difference of two tides, as small tables and a curve without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lowtide.tide.columns import TideColumns
from lowtide.tide.downsample import sample_events
from lowtide.tide.explain import breakdown_at, point_at
from lowtide.units import format_bytes, format_change

SEA, SAND = "#0e9aa7", "#f0794a"

_BUDGET = "#e5484d"
_WIDTH, _HEIGHT = 480, 96


def render(tide: TideColumns) -> str:
    """Return an HTML fragment that reads well on light and dark notebooks."""
    batch = "" if tide.batch_size is None else f" · batch {tide.batch_size}"
    rows = "".join(
        f'<tr><td style="text-align:left">{kind}</td><td style="text-align:right">{format_bytes(size)}</td></tr>'
        for kind, size in sorted(breakdown_at(tide, tide.peak_event).items(), key=lambda item: -item[1])
        if size
    )
    return (
        f'<div style="font-family:system-ui,sans-serif">'
        f"<div><b>{escape(tide.target)}</b>{batch}</div>"
        f"<div>peak <b>{format_bytes(tide.peak_bytes)}</b> · safe bound {format_bytes(tide.safe_bytes)}"
        f" · at {escape(str(point_at(tide, tide.peak_event)))}</div>"
        f"{draw_curves([(tide, SEA)])}<table>{rows}</table></div>"
    )


def draw_curves(curves: Sequence[tuple[TideColumns, str]], budget_bytes: int | None = None) -> str:
    """Return an SVG with the curves of several tides, each in its colour, and a line at the budget."""
    highest = max(1, *(int(tide.curve.bytes_in_use.max()) for tide, _ in curves))
    # A budget far above the curves would flatten them.
    budget = budget_bytes if budget_bytes is not None and budget_bytes <= 2 * highest else None
    highest = max(highest, budget or 0)
    drawn = "".join(_draw_curve(tide, colour, highest) for tide, colour in curves)
    if budget is not None:
        y = _HEIGHT - budget / highest * (_HEIGHT - 4)
        drawn += f'<line x1="0" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_BUDGET}"><title>budget</title></line>'
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="memory in use over the step">{drawn}</svg>'
    )


def _draw_curve(tide: TideColumns, colour: str, highest: int) -> str:
    events = sample_events(tide.curve.bytes_in_use, _WIDTH)
    last = max(len(tide.curve) - 1, 1)
    points = " ".join(
        f"{event / last * _WIDTH:.1f},{_HEIGHT - size / highest * (_HEIGHT - 4):.1f}"
        for event, size in zip(events.tolist(), tide.curve.bytes_in_use[events].tolist(), strict=True)
    )
    outline = f"0,{_HEIGHT} {points} {_WIDTH},{_HEIGHT}"
    return f'<polygon points="{outline}" fill="{colour}" fill-opacity="0.45" stroke="{colour}"/>'


def render_changes(headline: str, rows: Sequence[tuple[str, str, int, int]], notes: Sequence[str]) -> str:
    """Return an HTML fragment with a headline and a table; a row is a name, a status and the bytes before and after."""
    cells = "".join(
        f'<tr><td style="text-align:left">{escape(name)}</td><td style="text-align:left">{status}</td>'
        + "".join(
            f'<td style="text-align:right">{size}</td>'
            for size in (format_bytes(before), format_bytes(after), f"<b>{format_change(after - before)}</b>")
        )
        + "</tr>"
        for name, status, before, after in rows
    )
    lines = "".join(f"<div>note: {escape(note)}</div>" for note in notes)
    return (
        f'<div style="font-family:system-ui,sans-serif"><div><b>{escape(headline)}</b></div>'
        f"<table>{cells}</table>{lines}</div>"
    )
