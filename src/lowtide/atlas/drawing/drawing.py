"""A cut as a drawing, from which SVG and PNG are made: boxes with texts and colours, and curves between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from lowtide.atlas.cuts.collapse import collapse_to_fit
from lowtide.atlas.cuts.cut import Box, Cut, Edge
from lowtide.atlas.drawing.layered_layout import BOX_HEIGHT, BOX_WIDTH, Point, lay_out
from lowtide.atlas.labels import distinct_labels, fit_label, fit_labels
from lowtide.tide.kinds import COLOURS
from lowtide.units import format_bytes, format_count

MOST_BOXES = 200
"""Larger cuts are unreadable; an overview is drawn instead."""
_OVERVIEW = 60
_MOST_EDGES = 400
# Letters that fit in a box in the widest of the common fonts.
_LETTERS, _SMALL_LETTERS = 22, 24

MARGIN, TOP, BOTTOM = 28.0, 92.0, 52.0
_LEAST_WIDTH = 640.0

# The colour of each role of a box: the colours of the kinds of memory.
_ROLES = {
    "forward": COLOURS["activations"],
    "backward": COLOURS["gradients"],
    "optimizer": COLOURS["optimizer"],
    "several phases": COLOURS["slack"],
    "input": COLOURS["input"],
    "variable": COLOURS["weights"],
    "constant": COLOURS["constants"],
}
_ROLE_OF_OP = {
    "Placeholder": "input",
    "PlaceholderWithDefault": "input",
    "_Arg": "input",
    "VarHandleOp": "variable",
    "Variable": "variable",
    "VariableV2": "variable",
    "Const": "constant",
}


@dataclass(frozen=True)
class DrawnBox:
    """A box: its upper left corner, its colour, two lines of text, and its tooltip."""

    x: float
    y: float
    colour: str
    title: str
    detail: str
    tooltip: str
    is_group: bool
    is_centre: bool
    """Whether the others were selected around it."""


@dataclass(frozen=True)
class EdgeCurve:
    """An edge: a Bézier curve (a start point, then three points for each segment), its line style and its tooltip."""

    points: list[Point]
    width: float
    dash: tuple[int, int] | None
    tooltip: str


@dataclass(frozen=True)
class Drawing:
    """A complete drawing, in pixels."""

    width: float
    height: float
    title: str
    subtitle: str
    boxes: list[DrawnBox]
    curves: list[EdgeCurve]
    legend: list[tuple[str, str]]
    notes: tuple[str, ...]


def draw(cut: Cut) -> Drawing:
    """Lay out a cut; a cut that is too large is collapsed or folded first, and the notes say so."""
    shown = collapse_to_fit(cut, MOST_BOXES, _OVERVIEW)
    notes = shown.notes[len(cut.notes) :]
    boxes, bundles = list(shown.boxes()), [edge for edge in shown.bundles() if edge.source != edge.target]
    edges = sorted(bundles, key=lambda edge: (edge.through, -edge.count))[:_MOST_EDGES]
    if len(edges) < len(bundles):
        notes = (*notes, f"of {len(bundles):,} bundles of edges {len(edges):,} are drawn")
    layout = lay_out(len(boxes), [(edge.source, edge.target) for edge in edges])
    width = max(layout.width + 2 * MARGIN, _LEAST_WIDTH)
    left = (width - layout.width) / 2
    roles = [_role(box) for box in boxes]
    used = [role for role in _ROLES if role in roles]
    labels = fit_labels(distinct_labels([box.name for box in boxes]), _LETTERS)
    centres = shown.centre_boxes
    return Drawing(
        width,
        layout.height + TOP + BOTTOM,
        f"{cut.atlas.source.name} · {cut.atlas.source.label}",
        _subtitle(shown, len(boxes), len(bundles)),
        [
            _draw_box(box, role, (x + left - BOX_WIDTH / 2, y + TOP - BOX_HEIGHT / 2), label, is_centre=row in centres)
            for row, (box, role, label, (x, y)) in enumerate(zip(boxes, roles, labels, layout.boxes, strict=True))
        ],
        [
            _draw_edge(edge, boxes, [(x + left, y + TOP) for x, y in route])
            for edge, route in zip(edges, layout.routes, strict=True)
        ],
        [(role, _ROLES[role]) for role in used],
        notes,
    )


def _subtitle(cut: Cut, boxes: int, bundles: int) -> str:
    chosen, all_nodes = len(cut.nodes), len(cut.atlas)
    nodes = f"{chosen:,} of {all_nodes:,} nodes" if chosen < all_nodes else format_count(chosen, "node")
    return (
        f"{nodes} · {format_count(boxes, 'box')} · {format_count(bundles, 'edge')}"
        if boxes < chosen
        else f"{nodes} · {format_count(bundles, 'edge')}"
    )


def _role(box: Box) -> str:
    phase = "several phases" if box.phase == "mixed" else box.phase
    return _ROLE_OF_OP.get(box.op or "", phase)


def _draw_box(box: Box, role: str, corner: Point, label: str, *, is_centre: bool) -> DrawnBox:
    size = f" · {format_bytes(box.bytes)}" if box.bytes else ""
    detail = f"{box.op}{size}" if box.op else f"{format_count(box.nodes, 'node')}{size}"
    facts = [box.name, detail, role, box.dtype, box.device]
    tooltip = "\n".join(fact for fact in facts if fact)
    shown = fit_label(detail, _SMALL_LETTERS)
    return DrawnBox(*corner, _ROLES[role], label, shown, tooltip, box.kind != "node", is_centre)


def _draw_edge(edge: Edge, boxes: list[Box], route: list[Point]) -> EdgeCurve:
    dash = (2, 4) if edge.through else (5, 4) if edge.control == edge.count else None
    carried = "through nodes left out" if edge.bytes is None else format_bytes(edge.bytes)
    several = f"{edge.count:,} edges, " if edge.count > 1 else ""
    only = ", only waited for" if edge.control == edge.count else ""
    tooltip = f"{boxes[edge.source].name} → {boxes[edge.target].name}\n{several}{carried}{only}"
    return EdgeCurve(_curve(route), 1.0 + min(math.log10(edge.count) * 0.8, 3.0), dash, tooltip)


def _curve(route: list[Point]) -> list[Point]:
    """Return curves that pass every point of a route vertically."""
    points = [route[0]]
    for (x, y), (next_x, next_y) in pairwise(route):
        half = (next_y - y) / 2
        points += [(x, y + half), (next_x, next_y - half), (next_x, next_y)]
    return points
