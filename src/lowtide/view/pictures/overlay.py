"""Several curves in one SVG picture: recorded and predicted, before and after, with and without a plan."""

from collections.abc import Sequence
from html import escape

from lowtide.tide.tide import Tide
from lowtide.units import format_bytes
from lowtide.view.axis import axis_top
from lowtide.view.pictures.svg_frame import HEIGHT, LEFT, curve_points, draw_axis, draw_legend, frame, x_of, y_of

# Distinct in light and dark themes, and for most people with a colour vision deficiency.
_LINE_COLOURS = ("#12a5b0", "#f0794a", "#7c5cd6", "#e9b93f", "#3fa768", "#c25a93")


def render_overlay(tides: Sequence[Tide], labels: Sequence[str]) -> str:
    """Return the SVG text: one line for each tide, from the start of its step on the left to its end on the right.

    Steps differ in their number of events, so each takes the full width: points above each other are at the same
    share of the events of their steps.
    """
    entries = [
        (f"{label} {format_bytes(tide.peak_bytes)}", _LINE_COLOURS[position % len(_LINE_COLOURS)])
        for position, (tide, label) in enumerate(zip(tides, labels, strict=True))
    ]
    top = axis_top(max((tide.peak_bytes for tide in tides), default=0), 0, None)
    title = " · ".join(dict.fromkeys(tide.target for tide in tides))
    parts = [
        f'<text class="ink big" x="{LEFT}" y="36">{escape(title)}</text>',
        f'<text class="muted" x="{LEFT}" y="60">memory in use, full step, start to end</text>',
        *draw_axis(top),
    ]
    for tide, (text, colour) in zip(tides, entries, strict=True):
        parts += draw_line(tide, text, colour, top)
    parts += draw_legend(entries, HEIGHT - 24)
    return frame(f"{title}: peaks of {', '.join(text for text, _ in entries)}", parts)


def draw_line(tide: Tide, text: str, colour: str, top: int) -> list[str]:
    """Return the curve of a tide as a line, and its peak as a dot."""
    x = x_of(tide.peak_event, len(tide.curve))
    y = y_of(int(tide.curve.bytes_in_use[tide.peak_event]), top)
    points, title = curve_points(tide, top), escape(text)
    return [
        f'<polyline class="line" stroke="{colour}" points="{points}"><title>{title}</title></polyline>',
        f'<circle fill="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>',
    ]
