"""A cut as a PNG picture, drawn with Pillow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.atlas.cuts.cut import Cut
from lowtide.atlas.drawing.drawing import BOTTOM, MARGIN, Drawing, DrawnBox, EdgeCurve, draw
from lowtide.atlas.drawing.layered_layout import BOX_HEIGHT, BOX_WIDTH, Point
from lowtide.errors import LowtideError

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

_PAGE, _INK, _MUTED, _LINE = "#ffffff", "#10242d", "#5c717b", "#a4aeb8"
_BOX, _BOX_LINE, _GROUP, _GROUP_LINE = "#f6fafb", "#c5d4da", "#edf4f6", "#a9bec7"
_CENTRE = "#0d8f9b"
# Twice the resolution of the SVG, unless the picture would be too large for viewers.
_FINE, _LARGEST = 2, 16_000
_STEPS = 12


def write_png(cut: Cut, path: Path) -> tuple[str, ...]:
    """Draw a cut and write it; return notes on what was folded or left out."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise LowtideError(
            "a PNG needs Pillow, which is not installed", cure='run: pip install "lowtide[png]", or write an .svg'
        ) from error
    drawing = draw(cut)
    scale = _FINE if max(drawing.width, drawing.height) * _FINE <= _LARGEST else 1
    if max(drawing.width, drawing.height) > _LARGEST:
        raise LowtideError("the picture would be too large for a PNG", cure="write an .svg, or collapse or choose less")
    image = Image.new("RGB", (round(drawing.width * scale), round(drawing.height * scale)), _PAGE)
    _Painter(ImageDraw.Draw(image), scale).paint(drawing)
    image.save(path, "PNG")
    return drawing.notes


class _Painter:
    def __init__(self, canvas: ImageDraw, scale: int) -> None:
        from PIL import ImageFont

        self.canvas, self.scale = canvas, scale
        self.fonts = {size: ImageFont.load_default(size * scale) for size in (11, 12, 19)}

    def paint(self, drawing: Drawing) -> None:
        self.text(MARGIN, 20, drawing.title, 19, _INK)
        self.text(MARGIN, 50, drawing.subtitle, 12, _MUTED)
        for curve in drawing.curves:
            self.curve(curve)
        for box in drawing.boxes:
            self.box(box)
        x, y = MARGIN, drawing.height - BOTTOM / 2
        for role, colour in drawing.legend:
            self.rounded(x, y - 2, 11, 11, 2, colour, None)
            self.text(x + 16, y - 3, role, 11, _MUTED)
            x += 32 + 7 * len(role)

    def box(self, box: DrawnBox) -> None:
        fill, line = (_GROUP, _GROUP_LINE) if box.is_group else (_BOX, _BOX_LINE)
        if box.is_centre:
            self.rounded(box.x - 2, box.y - 2, BOX_WIDTH + 4, BOX_HEIGHT + 4, 8, _CENTRE, None)
        self.rounded(box.x, box.y, BOX_WIDTH, BOX_HEIGHT, 6, fill, line)
        self.rounded(box.x, box.y + 6, 4, BOX_HEIGHT - 12, 2, box.colour, None)
        self.text(box.x + 12, box.y + 6, box.title, 12, _INK)
        self.text(box.x + 12, box.y + 24, box.detail, 11, _MUTED)

    def curve(self, curve: EdgeCurve) -> None:
        points = list(_flattened(curve.points))
        width = max(round(curve.width * self.scale / 2), 1)
        for number, (begin, end) in enumerate(pairwise(points)):
            if curve.dash is None or number % 2 == 0:
                self.canvas.line([self.at(*begin), self.at(*end)], _LINE, width)
        x, y = points[-1]
        # Every curve ends vertically.
        back = -7 if points[-2][1] < y else 7
        self.canvas.polygon([self.at(x, y), self.at(x - 3.5, y + back), self.at(x + 3.5, y + back)], _LINE)

    def rounded(
        self, x: float, y: float, width: float, height: float, radius: int, fill: str, outline: str | None
    ) -> None:
        corners = [self.at(x, y), self.at(x + width, y + height)]
        self.canvas.rounded_rectangle(corners, radius * self.scale, fill, outline, self.scale if outline else 0)

    def text(self, x: float, y: float, text: str, size: int, colour: str) -> None:
        clean = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
        self.canvas.text(self.at(x, y), clean, colour, self.fonts[size])

    def at(self, x: float, y: float) -> Point:
        return x * self.scale, y * self.scale


def _flattened(points: list[Point]) -> Iterator[Point]:
    """Points on a Bézier curve."""
    yield points[0]
    for first in range(0, len(points) - 3, 3):
        (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points[first : first + 4]
        for step in range(1, _STEPS + 1):
            t = step / _STEPS
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            yield a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3
