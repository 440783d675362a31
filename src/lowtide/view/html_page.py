"""A report as one self-contained HTML file: the page of `lowtide view`, with its data, script and style inlined."""

import json
from html import escape
from importlib.resources import files
from typing import Any

# The page builds elements and never parses text as HTML; this forbids whatever else might be fetched or run.
_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"

_HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="lowtide">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title} · lowtide</title>
<link rel="icon" href="data:,">
<style>{style}</style>
<script type="application/json" id="data">{data}</script>
<script type="module">{script}</script>
</head>
<body>
<noscript>This page draws curves of memory with a script that it contains; scripts are switched off.</noscript>
</body>
</html>
"""


def render_html(kind: str, data: dict[str, Any]) -> str:
    """Return the HTML text; `data` comes from `page_data`, and `kind` names its view in `web/src/inlined.ts`."""
    text = json.dumps({"kind": kind, "data": data}, separators=(",", ":"), ensure_ascii=False)
    return _HTML.format(
        policy=_CONTENT_POLICY,
        title=escape(data["title"]),
        style=_built("page.css"),
        # "</script>" in a name must not end the data; U+003C is the same string to JSON.
        data=text.replace("<", "\\u003c"),
        script=_built("index.js"),
    )


def _built(name: str) -> str:
    return (files("lowtide.view") / "page" / name).read_text(encoding="utf-8")
