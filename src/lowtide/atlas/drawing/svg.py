"""A cut as an SVG picture, for light and dark pages."""

from __future__ import annotations

from html import escape
from pathlib import Path

from lowtide.atlas.cuts.cut import Cut
from lowtide.atlas.drawing.drawing import BOTTOM, MARGIN, Drawing, DrawnBox, EdgeCurve, draw
from lowtide.atlas.drawing.layered_layout import BOX_HEIGHT, BOX_WIDTH

_STYLE = """
.card { fill: #ffffff; stroke: #d9e4e8 }
.ink { fill: #10242d } .muted { fill: #5c717b }
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }
.big { font-size: 19px; font-weight: 650 } .small { font-size: 11px }
.box { fill: #f6fafb; stroke: #c5d4da } .group { fill: #edf4f6; stroke: #a9bec7 }
.edge { fill: none; stroke: #8d99a6; stroke-opacity: .75 } .tip { fill: #8d99a6 }
.name { font-size: 12px } .centre { stroke: #0d8f9b; stroke-width: 3 }
@media (prefers-color-scheme: dark) {
  .card { fill: #0f1c23; stroke: #22343d }
  .ink { fill: #e6f0f3 } .muted { fill: #92a8b2 }
  .box { fill: #15252d; stroke: #2d434e } .group { fill: #1a2c36; stroke: #3b5561 }
  .edge { stroke: #7d919b } .tip { fill: #7d919b } .centre { stroke: #35c3cf }
}
"""
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0,0 L8,4 L0,8 z"/></marker></defs>'
)


def write_svg(cut: Cut, path: Path) -> tuple[str, ...]:
    """Draw a cut and write it; return notes on what was folded or left out."""
    drawing = draw(cut)
    path.write_text(render_svg(drawing), encoding="utf-8")
    return drawing.notes


def render_svg(drawing: Drawing) -> str:
    """Return the SVG text; all names are escaped."""
    width, height = round(drawing.width), round(drawing.height)
    label = _clean(f"{drawing.title}: {drawing.subtitle}")
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{label}</title><style>{_STYLE}</style>",
        f'<rect class="card" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="12"/>',
        _TIP,
        f'<text class="ink big" x="{MARGIN}" y="38">{_clean(drawing.title)}</text>',
        f'<text class="muted" x="{MARGIN}" y="62">{_clean(drawing.subtitle)}</text>',
        *(_curve(curve) for curve in drawing.curves),
        *(_box(box) for box in drawing.boxes),
        *_legend(drawing),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _box(box: DrawnBox) -> str:
    kind = ("box group" if box.is_group else "box") + (" centre" if box.is_centre else "")
    x, y = box.x, box.y
    return (
        f"<g><title>{_clean(box.tooltip)}</title>"
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{BOX_WIDTH:.0f}" height="{BOX_HEIGHT:.0f}" rx="6"/>'
        f'<rect fill="{box.colour}" x="{x:.1f}" y="{y + 6:.1f}" width="4" height="{BOX_HEIGHT - 12:.0f}" rx="2"/>'
        f'<text class="ink name" x="{x + 12:.1f}" y="{y + 19:.1f}">{_clean(box.title)}</text>'
        f'<text class="muted small" x="{x + 12:.1f}" y="{y + 35:.1f}">{_clean(box.detail)}</text></g>'
    )


def _curve(curve: EdgeCurve) -> str:
    first, *rest = (f"{x:.1f},{y:.1f}" for x, y in curve.points)
    dash = "" if curve.dash is None else f' stroke-dasharray="{curve.dash[0]} {curve.dash[1]}"'
    return (
        f'<path class="edge" stroke-width="{curve.width:.1f}"{dash} marker-end="url(#tip)" '
        f'd="M{first} C{" ".join(rest)}"><title>{_clean(curve.tooltip)}</title></path>'
    )


def _legend(drawing: Drawing) -> list[str]:
    x, y, parts = MARGIN, drawing.height - BOTTOM / 2 + 8, []
    for role, colour in drawing.legend:
        parts.append(f'<rect fill="{colour}" x="{x:.0f}" y="{y - 10:.0f}" width="11" height="11" rx="2"/>')
        parts.append(f'<text class="muted small" x="{x + 16:.0f}" y="{y:.0f}">{role}</text>')
        x += 32 + 7 * len(role)
    return parts


def _clean(text: str) -> str:
    """Escape a text for XML, and replace the characters that XML does not allow even when escaped."""
    return escape("".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text))
