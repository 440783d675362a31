"""The curve of a tide as an SVG picture, for light and dark pages."""

from html import escape

import numpy as np

from lowtide.tide.downsample import sample_events
from lowtide.units import format_bytes
from lowtide.view.axis import COLOURS, STACK, stack_at
from lowtide.view.pictures.svg_frame import (
    HEIGHT,
    LEFT,
    RIGHT,
    WIDTH,
    curve_points,
    draw_axis,
    draw_legend,
    draw_level,
    frame,
    x_of,
    y_of,
)
from lowtide.view.reports.tide import TideReport

_POINTS = 480


def render_picture(report: TideReport) -> str:
    """Return the SVG text: the kinds stacked over the step, the peak, the safe bound and the budget."""
    tide = report.tide
    top = report.top_bytes
    label = f"{report.title}: peak {format_bytes(tide.peak_bytes)}, safe bound {format_bytes(tide.safe_bytes)}"
    parts = [
        *_heading(report),
        *draw_axis(top),
        *_areas(report, top),
        *_predicted(report, top),
        *_levels(report, top),
        *_peak(report, top),
        *_legend(report),
    ]
    return frame(label, parts)


def _heading(report: TideReport) -> list[str]:
    tide = report.tide
    lines = [f'<text class="ink big" x="{LEFT}" y="36">{escape(report.title)}</text>']
    facts = f"peak {format_bytes(tide.peak_bytes)} · safe bound {format_bytes(tide.safe_bytes)}"
    lines.append(f'<text class="muted" x="{LEFT}" y="60">{facts}</text>')
    if report.gap_line is not None:
        lines.append(f'<text class="muted" x="{LEFT}" y="80">┄ {escape(report.gap_line)}</text>')
    if report.verdict is not None:
        colour = "good" if report.fits else "over"
        right = WIDTH - RIGHT
        lines.append(f'<text class="{colour} mid" x="{right}" y="36" text-anchor="end">{escape(report.verdict)}</text>')
        if report.largest_batch_line is not None:
            text = escape(report.largest_batch_line)
            lines.append(f'<text class="muted" x="{right}" y="60" text-anchor="end">{text}</text>')
    return lines


def _areas(report: TideReport, top: int) -> list[str]:
    tide = report.tide
    events = sample_events(tide.curve.bytes_in_use, _POINTS)
    levels = np.cumsum(stack_at(tide, events), axis=0)
    x = [x_of(event, len(tide.curve)) for event in events.tolist()]
    below, paths = [0] * len(x), []
    for kind, level in zip(STACK, levels.tolist(), strict=True):
        if level != below:
            forth = [f"{px:.1f},{y_of(size, top):.1f}" for px, size in zip(x, level, strict=True)]
            back = [f"{px:.1f},{y_of(size, top):.1f}" for px, size in zip(x, below, strict=True)]
            points = " ".join((*forth, *reversed(back)))
            paths.append(f'<polygon fill="{COLOURS[kind]}" points="{points}"><title>{kind}</title></polygon>')
        below = level
    return paths


def _levels(report: TideReport, top: int) -> list[str]:
    lines = draw_level("safe", "muted", report.tide.safe_bytes, "safe bound", top)
    if report.budget_bytes is not None and report.budget_bytes <= top:
        lines += draw_level("budget", "over", report.budget_bytes, f"budget {format_bytes(report.budget_bytes)}", top)
    return lines


def _peak(report: TideReport, top: int) -> list[str]:
    tide = report.tide
    x = x_of(tide.peak_event, len(tide.curve))
    y = y_of(int(tide.curve.bytes_in_use[tide.peak_event]), top)
    anchor, shift = ("start", -6) if x < WIDTH / 2 else ("end", 6)
    where = escape(str(tide.peak_place))
    return [
        f'<circle class="peak" cx="{x:.1f}" cy="{y:.1f}" r="5"/>',
        f'<text class="place" x="{x + shift:.1f}" y="{y - 12:.1f}" text-anchor="{anchor}">{where}</text>',
    ]


def _predicted(report: TideReport, top: int) -> list[str]:
    if report.predicted is None:
        return []
    # What is held outside of the step is not predicted.
    points = curve_points(report.predicted, top, report.outside_bytes)
    return [f'<polyline class="predicted" points="{points}"><title>predicted</title></polyline>']


def _legend(report: TideReport) -> list[str]:
    shares = report.tide.breakdown()
    kinds = sorted((kind for kind in STACK if shares[kind]), key=lambda kind: -shares[kind])
    entries = [(f"{kind} {format_bytes(shares[kind])}", COLOURS[kind]) for kind in kinds]
    return draw_legend(entries, HEIGHT - 24)
