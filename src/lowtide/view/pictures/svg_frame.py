"""The parts that all SVG pictures share: a card for light and dark pages, axes, levels and a legend."""

from html import escape

from lowtide.tide.downsample import sample_events
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes
from lowtide.view.axis import BUDGET_COLOUR, ticks

WIDTH, HEIGHT = 960, 460
LEFT, RIGHT, TOP, BOTTOM = 84, 28, 96, 62
_POINTS = 480

_STYLE = f"""
.card {{ fill: #ffffff; stroke: #d9e4e8 }}
.ink {{ fill: #10242d }} .muted {{ fill: #5c717b }}
.grid {{ stroke: #e4ecef }} .safe {{ stroke: #5c717b; stroke-dasharray: 2 4 }}
.budget {{ stroke: {BUDGET_COLOUR}; stroke-width: 2 }} .over {{ fill: {BUDGET_COLOUR} }} .good {{ fill: #2a8f55 }}
.peak {{ fill: #10242d; stroke: #ffffff; stroke-width: 2 }}
.place {{ fill: #10242d; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round }}
.predicted {{ fill: none; stroke: #10242d; stroke-width: 1.5; stroke-dasharray: 5 3 }}
.line {{ fill: none; stroke-width: 2; stroke-linejoin: round }}
.free {{ fill: #edf4f6 }} .tile {{ stroke: #ffffff; stroke-width: .6 }} .fold {{ stroke: #8d99a6; fill: none }}
.moment {{ stroke: #10242d; stroke-opacity: .6; stroke-dasharray: 3 3 }}
text {{ font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }}
.big {{ font-size: 19px; font-weight: 650 }} .mid {{ font-size: 15px; font-weight: 600 }} .small {{ font-size: 11px }}
@media (prefers-color-scheme: dark) {{
  .card {{ fill: #0f1c23; stroke: #22343d }}
  .ink {{ fill: #e6f0f3 }} .muted {{ fill: #92a8b2 }}
  .grid {{ stroke: #1e2f38 }} .safe {{ stroke: #92a8b2 }} .good {{ fill: #58c58a }}
  .peak, .place {{ fill: #e6f0f3; stroke: #0f1c23 }}
  .predicted, .moment {{ stroke: #e6f0f3 }} .free {{ fill: #1a2c36 }} .tile {{ stroke: #0f1c23 }}
}}
"""


def frame(label: str, parts: list[str], height: int = HEIGHT) -> str:
    """Return the SVG text of a picture; screen readers read `label`."""
    opening = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(label)}</title><style>{_STYLE}</style>",
        f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="12"/>',
    ]
    return "\n".join([*opening, *parts, "</svg>\n"])


def draw_axis(top: int) -> list[str]:
    """Return lines and labels from 0 to `top` bytes."""
    lines = []
    for tick in ticks(top, 7):
        y = y_of(tick, top)
        lines.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        text = format_bytes(tick) if tick else "0"
        lines.append(f'<text class="muted" x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return lines


def draw_level(
    line_class: str, text_class: str, size: int, text: str, top: int, *, at_start: bool = False
) -> list[str]:
    """Return a horizontal line at `size` bytes, with a text above one of its ends."""
    y, right = y_of(size, top), WIDTH - RIGHT
    place = f'x="{LEFT + 4}"' if at_start else f'x="{right}" text-anchor="end"'
    return [
        f'<line class="{line_class}" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>',
        f'<text class="{text_class}" {place} y="{y - 6:.1f}">{text}</text>',
    ]


def draw_legend(entries: list[tuple[str, str]], y: int) -> list[str]:
    """Return one line of (text, colour) entries, as many as fit."""
    x, parts = LEFT, []
    for text, colour in entries:
        width = 24 + 7 * len(text)
        if x + width > WIDTH - RIGHT:
            break
        parts.append(f'<rect fill="{colour}" x="{x}" y="{y - 10}" width="11" height="11" rx="2"/>')
        parts.append(f'<text class="muted" x="{x + 16}" y="{y}">{escape(text)}</text>')
        x += width + 6
    return parts


def curve_points(tide: Tide, top: int, added_bytes: int = 0) -> str:
    """Return the points of a curve, raised by some bytes; a step of any number of events takes the full width."""
    events = sample_events(tide.curve.bytes_in_use, _POINTS)
    sizes = (tide.curve.bytes_in_use[events] + added_bytes).tolist()
    count = len(tide.curve)
    return " ".join(
        f"{x_of(event, count):.1f},{y_of(size, top):.1f}" for event, size in zip(events.tolist(), sizes, strict=True)
    )


def x_of(event: int, count: int) -> float:
    """Return the x coordinate of an event of a step of `count` events."""
    return LEFT + event / max(count - 1, 1) * (WIDTH - LEFT - RIGHT)


def y_of(size: int, top: int) -> float:
    """Return the y coordinate of an amount on an axis that ends at `top`."""
    return HEIGHT - BOTTOM - size / top * (HEIGHT - TOP - BOTTOM)
