"""A report as one page that needs nothing else: no network, no server."""

import json
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from lowtide.tide.sample import sample_events
from lowtide.tide.space import free_space
from lowtide.view.report import Report, shape_text
from lowtide.view.scale import COLOURS, STACK, stack_at, ticks
from lowtide.view.tiles import TILES, AddressScale, Tile, address_scale, tiles_of

_POINTS = 1200
# The largest buffers are listed one by one; the page adds up what is left of the curve as the rest.
_BUFFERS = 4000


def render_page(report: Report) -> str:
    """Return the HTML text."""
    page = _asset("page.html")
    parts = {
        "<!--title-->": escape(report.title),
        "/*style*/": _asset("page.css"),
        "/*script*/": _asset("drawing.js") + _asset("space.js") + _asset("page.js"),
        "/*data*/": _embed(_page_data(report)),
    }
    # The data goes in last, so that nothing in it is taken for a place to fill.
    for place, text in parts.items():
        page = page.replace(place, text, 1)
    return page


_THEME = """
const root = document.documentElement;
root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
});
"""


def page_frame(title: str, body: str, style: str = "", *, script: str | None = None, data: Any = None) -> str:
    """Return a page with the head and the header of the report around `body`.

    `script` is the asset that draws `data` into it, where the body needs one.
    """
    head = _asset("page.html").partition("<main>")[0]
    parts = {
        "<!--title-->": escape(title),
        "/*style*/": _asset("page.css") + style,
        '<h1 id="title">': f'<h1 id="title">{escape(title)}',
    }
    for place, text in parts.items():
        head = head.replace(place, text, 1)
    drawing = ""
    if script is not None:
        drawing = "<noscript>This page draws its curves with a script that it contains.</noscript>\n"
        drawing += f'<script type="application/json" id="data">{_embed(data)}</script>\n'
        drawing += f"<script>{_asset('drawing.js')}{_asset(script)}</script>\n"
    return f"{head}<main>\n{body}\n</main>\n<script>{_THEME}</script>\n{drawing}</body>\n</html>\n"


def _asset(name: str) -> str:
    return (files("lowtide.view") / "assets" / name).read_text(encoding="utf-8")


def _embed(data: Any) -> str:
    # "</script>" in a name must not end the data, and U+003C is the same string to JSON.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _page_data(report: Report) -> dict[str, Any]:
    tide = report.tide
    rows = np.argsort(-tide.buffers.allocated, kind="stable")[:_BUFFERS].tolist()
    space = None
    if tide.buffers.address is not None:
        scale = address_scale(tide)
        tiles = tiles_of(tide, scale, TILES)
        # What is drawn one by one can be pointed at, so it is among the buffers that the page knows.
        rows = list(dict.fromkeys([*rows, *(tile.row for tile in tiles if tile.row is not None)]))
        space = _space_data(report, scale, tiles, rows)
    return {
        "title": report.title,
        "verdict": report.verdict,
        "fits": report.fits,
        "largest_batch": report.largest_batch_line,
        "method": report.method_line,
        "building": report.building_line,
        "unmodelled": report.unmodelled_line,
        "recorded": report.recorded_line,
        "limit": report.limit_line,
        "free": report.free_line,
        "pinning": report.pinning_line,
        "predicted": _predicted_data(report),
        "notes": tide.notes,
        "peak_bytes": tide.peak_bytes,
        "safe_bytes": tide.safe_bytes,
        "budget_bytes": report.budget_bytes,
        "top_bytes": report.top_bytes,
        "peak_event": tide.peak_event,
        "peak_place": str(tide.peak_place),
        "kinds": [{"name": kind, "colour": COLOURS[kind]} for kind in STACK],
        "curve": _curve_data(report),
        "buffers": _buffer_data(report, rows),
        "space": space,
    }


def _space_data(report: Report, scale: AddressScale, tiles: list[Tile], rows: list[int]) -> dict[str, Any]:
    tide = report.tide
    events = sample_events(tide.curve.bytes_in_use, _POINTS)
    free = free_space(tide)
    place = {row: index for index, row in enumerate(rows)}
    return {
        "bytes": scale.bytes,
        "holes": report.holes_line,
        "free": free.free_bytes[events].tolist(),
        "largest": free.largest_hole_bytes[events].tolist(),
        "bands": [(_share(band.low), _share(band.high)) for band in scale.largest_bands],
        "folds": [(_share(fold.low), _share(fold.high), fold.bytes) for fold in scale.largest_folds],
        "ticks": [(_share(scale.height_of_amount(tick)), tick) for tick in ticks(scale.bytes, 7)],
        "tiles": {
            # Events of single buffers are whole numbers; those of merged cells lie between.
            "born": [round(tile.born, 1) for tile in tiles],
            "died": [round(tile.died, 1) for tile in tiles],
            "low": [_share(tile.low) for tile in tiles],
            "high": [_share(tile.high) for tile in tiles],
            "kind": [STACK.index(tile.kind) for tile in tiles],
            "row": [None if tile.row is None else place[tile.row] for tile in tiles],
            "shade": [tile.shade for tile in tiles],
        },
    }


def _share(height: float) -> float:
    # A hundredth of a pixel.
    return round(height, 5)


def _predicted_data(report: Report) -> dict[str, Any] | None:
    tide = report.predicted
    if tide is None:
        return None
    events = sample_events(tide.curve.bytes_in_use, _POINTS)
    return {
        "peak_bytes": tide.peak_bytes,
        "gap": report.gap_line,
        "events": len(tide.curve),
        "event": events.tolist(),
        "bytes": tide.curve.bytes_in_use[events].tolist(),
    }


def _curve_data(report: Report) -> dict[str, Any]:
    tide = report.tide
    events = sample_events(tide.curve.bytes_in_use, _POINTS)
    nodes, table = intern([None if event == 0 else tide.curve.nodes[tide.curve.node[event]] for event in events])
    return {
        "events": len(tide.curve),
        "event": events.tolist(),
        "bytes": tide.curve.bytes_in_use[events].tolist(),
        "strata": stack_at(tide, events).tolist(),
        "node": nodes,
        "nodes": table,
    }


def _buffer_data(report: Report, rows: list[int]) -> dict[str, Any]:
    buffers = report.tide.buffers
    data: dict[str, Any] = {"count": len(rows)}
    texts: dict[str, list[str | None]] = {
        "op": [buffers.op[row] for row in rows],
        "layer": [buffers.layer[row] for row in rows],
        "source": [buffers.source[row] for row in rows],
        "shape": [shape_text(buffers.dtype[row], buffers.shape[row]) for row in rows],
    }
    for name, column in texts.items():
        data[name], data[f"{name}s"] = intern(column)
    return data | {
        "name": [buffers.name[row] for row in rows],
        "kind": [STACK.index(buffers.kind_of(row)) for row in rows],
        "bytes": buffers.allocated[rows].tolist(),
        "born": buffers.born[rows].tolist(),
        "died": buffers.died[rows].tolist(),
    }


def intern(column: list[str | None]) -> tuple[list[int | None], list[str]]:
    """Return each text as its place in a table of distinct texts, and that table."""
    places: dict[str, int] = {}
    return [None if text is None else places.setdefault(text, len(places)) for text in column], list(places)
