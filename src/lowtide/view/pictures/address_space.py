"""The address space over the step as an SVG picture: the address of each buffer, and the holes between them."""

from html import escape

from lowtide.tide.kinds import KINDS
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes
from lowtide.view.axis import COLOURS, ticks
from lowtide.view.pictures.svg_frame import LEFT, RIGHT, WIDTH, draw_legend, frame
from lowtide.view.reports.tide import TideReport, shape_text
from lowtide.view.tiles import TILES, AddressScale, Tile, address_scale, tiles_of

_HEIGHT, _TOP, _BOTTOM = 560, 96, 84
# The largest buffers are elements with a tooltip; the others are one path for each colour and shade.
_NAMED = 300
# A thinner rectangle would be invisible.
_THINNEST = 0.5


def render_address_picture(report: TideReport) -> str:
    """Return the SVG text: events from left to right, addresses from the bottom up, each kind in its colour.

    Gaps that no buffer of the step ever covers are folded and marked. Raises LowtideError for a tide without addresses.
    """
    tide = report.tide
    scale = address_scale(tide)
    space = f"{format_bytes(scale.bytes)} that are in use at some moment"
    holes = report.holes_line or ""
    label = f"{report.title}: the addresses over the step, {space}; {holes}"
    parts = [
        f'<text class="ink big" x="{LEFT}" y="36">{escape(report.title)}</text>',
        f'<text class="muted" x="{LEFT}" y="60">addresses over the step · {space}</text>',
        f'<text class="muted" x="{LEFT}" y="80">{holes}</text>',
        *_space(scale),
        *_tiles(tide, tiles_of(tide, scale, TILES)),
        *_folds(scale),
        *_moment(tide),
        *_legend(report),
    ]
    return frame(label, parts, _HEIGHT)


def _space(scale: AddressScale) -> list[str]:
    right = WIDTH - RIGHT
    bands = scale.largest_bands
    outline = "".join(f"M{LEFT} {_y(band.low):.1f}H{right}V{_y(band.high):.1f}H{LEFT}z" for band in bands)
    parts = [f'<path class="free" d="{outline}"><title>free</title></path>'] if bands else []
    for tick in ticks(scale.bytes, 9):
        y = _y(scale.height_of_amount(tick))
        text = format_bytes(tick) if tick else "0"
        parts.append(f'<text class="muted" x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return parts


def _tiles(tide: Tide, tiles: list[Tile]) -> list[str]:
    events = len(tide.curve)
    paths: dict[tuple[str, float], list[str]] = {}
    named = []
    buffers = [tile for tile in tiles if tile.row is not None]
    for tile in [tile for tile in tiles if tile.row is None] + buffers[_NAMED:]:
        paths.setdefault((tile.kind, tile.shade), []).append(_outline(tile, events))
    for tile in buffers[:_NAMED]:
        title = escape(_describe(tide, tile))
        outline = _outline(tile, events)
        named.append(f'<path class="tile" fill="{COLOURS[tile.kind]}" d="{outline}"><title>{title}</title></path>')
    merged = [
        f'<path fill="{COLOURS[kind]}" fill-opacity="{shade:g}" d="{"".join(outlines)}"/>'
        for (kind, shade), outlines in paths.items()
    ]
    return merged + named


def _outline(tile: Tile, events: int) -> str:
    left, right = _x(tile.born, events), _x(tile.died, events)
    bottom, top = _y(tile.low), _y(tile.high)
    return f"M{left:.1f} {bottom:.1f}H{max(right, left + _THINNEST):.1f}V{min(top, bottom - _THINNEST):.1f}H{left:.1f}z"


def _describe(tide: Tide, tile: Tile) -> str:
    buffers, row = tide.buffers, tile.row
    if row is None:
        return tile.kind
    layer = buffers.layer[row]
    shape = shape_text(buffers.dtype[row], buffers.shape[row])
    parts = (buffers.name[row], layer, tile.kind, format_bytes(int(buffers.allocated[row])), shape)
    return " · ".join(part for part in parts if part)


def _folds(scale: AddressScale) -> list[str]:
    """Return a wave for each fold, with the bytes that it leaves out."""
    parts = []
    for fold in scale.largest_folds:
        y = (_y(fold.low) + _y(fold.high)) / 2
        waves = "q4 -4 8 0t8 0" * ((WIDTH - LEFT - RIGHT) // 16)
        title = f"{format_bytes(fold.bytes)} that no buffer of this step covers, folded"
        parts.append(f'<path class="fold" d="M{LEFT} {y:.1f}{waves}"><title>{title}</title></path>')
    return parts


def _moment(tide: Tide) -> list[str]:
    x = _x(tide.peak_event + 0.5, len(tide.curve))
    anchor = "start" if x < WIDTH / 2 else "end"
    y = _HEIGHT - _BOTTOM + 18
    return [
        f'<line class="moment" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM + 6}"/>',
        f'<text class="muted" x="{x:.1f}" y="{y}" text-anchor="{anchor}">peak: {escape(str(tide.peak_place))}</text>',
    ]


def _legend(report: TideReport) -> list[str]:
    shares = report.tide.breakdown()
    kinds = sorted((kind for kind in KINDS if shares[kind]), key=lambda kind: -shares[kind])
    entries = [(kind, COLOURS[kind]) for kind in kinds]
    parts = draw_legend(entries, _HEIGHT - 24)
    x = WIDTH - RIGHT
    return [
        *parts,
        f'<text class="muted" x="{x}" y="{_HEIGHT - 24}" text-anchor="end">pale: free · wave: folded</text>',
    ]


def _x(event: float, events: int) -> float:
    return LEFT + event / events * (WIDTH - LEFT - RIGHT)


def _y(height: float) -> float:
    return _HEIGHT - _BOTTOM - height * (_HEIGHT - _TOP - _BOTTOM)
