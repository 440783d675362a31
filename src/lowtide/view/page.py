"""A report as one page that needs nothing else: no network, no server."""

import json
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from lowtide.tide.sample import sample_events
from lowtide.view.report import Report, shape_text
from lowtide.view.scale import COLOURS, STACK, axis_top, stack_at

_POINTS = 1200
# The largest buffers are listed one by one; the page adds up what is left of the curve as the rest.
_BUFFERS = 4000


def render_page(report: Report) -> str:
    """Return the HTML text."""
    assets = files("lowtide.view") / "assets"
    page = (assets / "page.html").read_text(encoding="utf-8")
    # "</script>" in a name must not end the data, and U+003C is the same string to JSON.
    data = json.dumps(_page_data(report), separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "<!--title-->": escape(report.title),
        "/*style*/": (assets / "page.css").read_text(encoding="utf-8"),
        "/*script*/": (assets / "page.js").read_text(encoding="utf-8"),
        "/*data*/": data,
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


def page_frame(title: str, body: str, style: str = "") -> str:
    """Return a page with the head and the header of the report around `body`, which needs no script."""
    assets = files("lowtide.view") / "assets"
    head = (assets / "page.html").read_text(encoding="utf-8").partition("<main>")[0]
    parts = {
        "<!--title-->": escape(title),
        "/*style*/": (assets / "page.css").read_text(encoding="utf-8") + style,
        '<h1 id="title">': f'<h1 id="title">{escape(title)}',
    }
    for place, text in parts.items():
        head = head.replace(place, text, 1)
    return f"{head}<main>\n{body}\n</main>\n<script>{_THEME}</script>\n</body>\n</html>\n"


def _page_data(report: Report) -> dict[str, Any]:
    tide = report.tide
    return {
        "title": report.title,
        "verdict": report.verdict,
        "fits": report.fits,
        "largest_batch": report.largest_batch_line,
        "method": report.method_line,
        "building": report.building_line,
        "unmodelled": report.unmodelled_line,
        "notes": tide.notes,
        "peak_bytes": tide.peak_bytes,
        "safe_bytes": tide.safe_bytes,
        "budget_bytes": report.budget_bytes,
        "top_bytes": axis_top(tide.peak_bytes, tide.safe_bytes, report.budget_bytes),
        "peak_event": tide.peak_event,
        "peak_place": str(tide.peak_place),
        "kinds": [{"name": kind, "colour": COLOURS[kind]} for kind in STACK],
        "curve": _curve_data(report),
        "buffers": _buffer_data(report),
    }


def _curve_data(report: Report) -> dict[str, Any]:
    tide = report.tide
    events = sample_events(tide.curve.bytes_in_use, _POINTS)
    nodes, table = _intern([None if event == 0 else tide.curve.nodes[tide.curve.node[event]] for event in events])
    return {
        "events": len(tide.curve),
        "event": events.tolist(),
        "bytes": tide.curve.bytes_in_use[events].tolist(),
        "strata": stack_at(tide, events).tolist(),
        "node": nodes,
        "nodes": table,
    }


def _buffer_data(report: Report) -> dict[str, Any]:
    buffers = report.tide.buffers
    rows = np.argsort(-buffers.allocated, kind="stable")[:_BUFFERS].tolist()
    data: dict[str, Any] = {"count": len(rows)}
    texts: dict[str, list[str | None]] = {
        "op": [buffers.op[row] for row in rows],
        "layer": [buffers.layer[row] for row in rows],
        "source": [buffers.source[row] for row in rows],
        "shape": [shape_text(buffers.dtype[row], buffers.shape[row]) for row in rows],
    }
    for name, column in texts.items():
        data[name], data[f"{name}s"] = _intern(column)
    return data | {
        "name": [buffers.name[row] for row in rows],
        "kind": [STACK.index(buffers.kind_of(row)) for row in rows],
        "bytes": buffers.allocated[rows].tolist(),
        "born": buffers.born[rows].tolist(),
        "died": buffers.died[rows].tolist(),
    }


def _intern(column: list[str | None]) -> tuple[list[int | None], list[str]]:
    """Return each text as its place in a table of distinct texts, and that table."""
    places: dict[str, int] = {}
    return [None if text is None else places.setdefault(text, len(places)) for text in column], list(places)
