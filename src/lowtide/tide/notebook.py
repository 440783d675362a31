"""A tide in a notebook: a small table and the curve, drawn without scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from lowtide.tide.sample import sample_events
from lowtide.units import format_bytes

if TYPE_CHECKING:
    from lowtide.tide.tide import Tide

_WIDTH, _HEIGHT = 480, 96


def render(tide: Tide) -> str:
    """Return an HTML fragment that reads well on light and dark notebooks."""
    batch = "" if tide.batch_size is None else f" · batch {tide.batch_size}"
    rows = "".join(
        f'<tr><td style="text-align:left">{kind}</td><td style="text-align:right">{format_bytes(size)}</td></tr>'
        for kind, size in sorted(tide.breakdown().items(), key=lambda item: -item[1])
        if size
    )
    return (
        f'<div style="font-family:system-ui,sans-serif">'
        f"<div><b>{escape(tide.target)}</b>{batch}</div>"
        f"<div>peak <b>{format_bytes(tide.peak_bytes)}</b> · safe bound {format_bytes(tide.safe_bytes)}"
        f" · at {escape(str(tide.peak_place))}</div>"
        f"{_draw(tide)}<table>{rows}</table></div>"
    )


def _draw(tide: Tide) -> str:
    events = sample_events(tide.curve.bytes_in_use, _WIDTH)
    last, highest = max(len(tide.curve) - 1, 1), max(int(tide.curve.bytes_in_use.max()), 1)
    points = " ".join(
        f"{event / last * _WIDTH:.1f},{_HEIGHT - size / highest * (_HEIGHT - 4):.1f}"
        for event, size in zip(events.tolist(), tide.curve.bytes_in_use[events].tolist(), strict=True)
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="memory in use over the step">'
        f'<polygon points="0,{_HEIGHT} {points} {_WIDTH},{_HEIGHT}" fill="#0e9aa7" fill-opacity="0.45"'
        f' stroke="#0e9aa7"/></svg>'
    )
