"""The curve as a picture: one SVG file, for light and dark pages."""

from html import escape

import numpy as np

from lowtide.tide.sample import sample_events
from lowtide.units import format_bytes
from lowtide.view.report import Report
from lowtide.view.scale import BUDGET_COLOUR, COLOURS, STACK, axis_top, stack_at, ticks

_WIDTH, _HEIGHT = 960, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 28, 96, 62
_POINTS = 480

_STYLE = f"""
.card {{ fill: #ffffff; stroke: #d9e4e8 }}
.ink {{ fill: #10242d }} .muted {{ fill: #5c717b }}
.grid {{ stroke: #e4ecef }} .safe {{ stroke: #5c717b; stroke-dasharray: 2 4 }}
.budget {{ stroke: {BUDGET_COLOUR}; stroke-width: 2 }} .over {{ fill: {BUDGET_COLOUR} }} .good {{ fill: #2a8f55 }}
.peak {{ fill: #10242d; stroke: #ffffff; stroke-width: 2 }}
.place {{ fill: #10242d; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round }}
text {{ font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }}
.big {{ font-size: 19px; font-weight: 650 }} .mid {{ font-size: 15px; font-weight: 600 }}
@media (prefers-color-scheme: dark) {{
  .card {{ fill: #0f1c23; stroke: #22343d }}
  .ink {{ fill: #e6f0f3 }} .muted {{ fill: #92a8b2 }}
  .grid {{ stroke: #1e2f38 }} .safe {{ stroke: #92a8b2 }} .good {{ fill: #58c58a }}
  .peak, .place {{ fill: #e6f0f3; stroke: #0f1c23 }}
}}
"""


def render_picture(report: Report) -> str:
    """Return the SVG text: the kinds stacked over the step, the peak, the safe bound and the budget."""
    tide = report.tide
    top = axis_top(tide.peak_bytes, tide.safe_bytes, report.budget_bytes)
    label = f"{report.title}: peak {format_bytes(tide.peak_bytes)}, safe bound {format_bytes(tide.safe_bytes)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(label)}</title><style>{_STYLE}</style>",
        f'<rect class="card" x=".5" y=".5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="12"/>',
        *_heading(report),
        *_axis(top),
        *_areas(report, top),
        *_levels(report, top),
        *_peak(report, top),
        *_legend(report),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _heading(report: Report) -> list[str]:
    tide = report.tide
    lines = [f'<text class="ink big" x="{_LEFT}" y="36">{escape(report.title)}</text>']
    facts = f"peak {format_bytes(tide.peak_bytes)} · safe bound {format_bytes(tide.safe_bytes)}"
    lines.append(f'<text class="muted" x="{_LEFT}" y="60">{facts}</text>')
    if report.verdict is not None:
        colour = "good" if report.fits else "over"
        right = _WIDTH - _RIGHT
        lines.append(f'<text class="{colour} mid" x="{right}" y="36" text-anchor="end">{escape(report.verdict)}</text>')
        if report.largest_batch_line is not None:
            text = escape(report.largest_batch_line)
            lines.append(f'<text class="muted" x="{right}" y="60" text-anchor="end">{text}</text>')
    return lines


def _axis(top: int) -> list[str]:
    lines = []
    for tick in ticks(top, 7):
        y = _y(tick, top)
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        text = format_bytes(tick) if tick else "0"
        lines.append(f'<text class="muted" x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return lines


def _areas(report: Report, top: int) -> list[str]:
    tide = report.tide
    events = sample_events(tide.curve.bytes_in_use, _POINTS)
    levels = np.cumsum(stack_at(tide, events), axis=0)
    x = [_x(event, len(tide.curve)) for event in events.tolist()]
    below, paths = [0] * len(x), []
    for kind, level in zip(STACK, levels.tolist(), strict=True):
        if level != below:
            forth = [f"{px:.1f},{_y(size, top):.1f}" for px, size in zip(x, level, strict=True)]
            back = [f"{px:.1f},{_y(size, top):.1f}" for px, size in zip(x, below, strict=True)]
            points = " ".join((*forth, *reversed(back)))
            paths.append(f'<polygon fill="{COLOURS[kind]}" points="{points}"><title>{kind}</title></polygon>')
        below = level
    return paths


def _levels(report: Report, top: int) -> list[str]:
    lines = _level("safe", "muted", report.tide.safe_bytes, "safe bound", top)
    if report.budget_bytes is not None and report.budget_bytes <= top:
        lines += _level("budget", "over", report.budget_bytes, f"budget {format_bytes(report.budget_bytes)}", top)
    return lines


def _level(line_class: str, text_class: str, size: int, text: str, top: int) -> list[str]:
    y, right = _y(size, top), _WIDTH - _RIGHT
    return [
        f'<line class="{line_class}" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>',
        f'<text class="{text_class}" x="{right}" y="{y - 6:.1f}" text-anchor="end">{text}</text>',
    ]


def _peak(report: Report, top: int) -> list[str]:
    tide = report.tide
    x = _x(tide.peak_event, len(tide.curve))
    y = _y(int(tide.curve.bytes_in_use[tide.peak_event]), top)
    anchor, shift = ("start", -6) if x < _WIDTH / 2 else ("end", 6)
    where = escape(str(tide.peak_place))
    return [
        f'<circle class="peak" cx="{x:.1f}" cy="{y:.1f}" r="5"/>',
        f'<text class="place" x="{x + shift:.1f}" y="{y - 12:.1f}" text-anchor="{anchor}">{where}</text>',
    ]


def _legend(report: Report) -> list[str]:
    shares = report.tide.breakdown()
    x, y, parts = _LEFT, _HEIGHT - 24, []
    for kind in sorted((kind for kind in STACK if shares[kind]), key=lambda kind: -shares[kind]):
        text = f"{kind} {format_bytes(shares[kind])}"
        width = 24 + 7 * len(text)
        if x + width > _WIDTH - _RIGHT:
            break
        parts.append(f'<rect fill="{COLOURS[kind]}" x="{x}" y="{y - 10}" width="11" height="11" rx="2"/>')
        parts.append(f'<text class="muted" x="{x + 16}" y="{y}">{text}</text>')
        x += width + 6
    return parts


def _x(event: int, count: int) -> float:
    return _LEFT + event / max(count - 1, 1) * (_WIDTH - _LEFT - _RIGHT)


def _y(size: int, top: int) -> float:
    return _HEIGHT - _BOTTOM - size / top * (_HEIGHT - _TOP - _BOTTOM)
