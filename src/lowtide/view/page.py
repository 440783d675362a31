"""A report as one page that needs nothing else: no network, no server."""

import json
from html import escape
from importlib.resources import files
from typing import Any

from lowtide.view.page_data.tide import tide_data
from lowtide.view.reports.tide import TideReport


def render_page(report: TideReport) -> str:
    """Return the HTML text."""
    page = _asset("page.html")
    parts = {
        "<!--title-->": escape(report.title),
        "/*style*/": _asset("page.css"),
        "/*script*/": _asset("drawing.js") + _asset("space.js") + _asset("page.js"),
        "/*data*/": _embed(tide_data(report)),
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


def card(title: str, content: str) -> str:
    """Return a part of a page under its title; nothing where there is nothing to show."""
    heading = f'<div class="heading"><h2>{escape(title)}</h2></div>'
    return f'<section class="card">{heading}<div class="scroll">{content}</div></section>' if content else ""
