"""A forecast as an SVG picture: one bar for each stage of the pipeline."""

from html import escape

from lowtide.units import format_bytes
from lowtide.view.axis import COLOURS
from lowtide.view.pictures.svg_frame import frame
from lowtide.view.reports.forecast import ForecastReport

_HELD, _WORKING = COLOURS["input"], COLOURS["workspace"]
_WIDTH, _NAMES, _AMOUNTS, _ROW, _TOP, _BOTTOM = 960, 300, 120, 26, 92, 40


def render_forecast_picture(report: ForecastReport) -> str:
    """Return the SVG text: for each stage, the bytes of its waiting elements and of its working memory."""
    forecast = report.forecast
    rows = [("consumer", 0, forecast.taken_bytes, 0)]
    rows += [(each.name, each.depth, each.held_bytes, each.working_bytes) for each in forecast.holdings]
    largest = max(*(held + working for _, _, held, working in rows), 1)
    room = _WIDTH - _NAMES - _AMOUNTS
    parts = [
        f'<text class="ink big" x="24" y="38">{escape(report.target)}</text>',
        f'<text class="ink" x="24" y="62">{escape(report.headline)}</text>',
    ]
    for number, (name, depth, held, working) in enumerate(rows):
        y = _TOP + number * _ROW
        first, second = held / largest * room, working / largest * room
        amount = format_bytes(held + working)
        parts += [
            f'<text class="ink" x="{24 + 12 * depth}" y="{y + 13}">{escape(name)}</text>',
            f'<rect fill="{_HELD}" x="{_NAMES}" y="{y}" width="{first:.1f}" height="17"/>',
            f'<rect fill="{_WORKING}" x="{_NAMES + first:.1f}" y="{y}" width="{second:.1f}" height="17"/>',
            f'<text class="muted" x="{_NAMES + first + second + 8:.1f}" y="{y + 13}">{amount}</text>',
        ]
    height = _TOP + len(rows) * _ROW + _BOTTOM
    for x, colour, text in ((24, _HELD, "elements that wait"), (190, _WORKING, "working memory")):
        parts.append(f'<rect fill="{colour}" x="{x}" y="{height - 28}" width="11" height="11" rx="2"/>')
        parts.append(f'<text class="muted" x="{x + 17}" y="{height - 18}">{text}</text>')
    return frame(f"{report.target} {report.headline}", parts, height)
