"""Screens of very wide graphs: how soon they are drawn, what they show, and whether they count what they leave out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from benchmarks.common.cache import Measured
from benchmarks.explore.browser import Browser, open_browser
from benchmarks.explore.page import joined, open_graph
from benchmarks.explore.servers import PageServer, lowtide_view
from benchmarks.explore.suite import BoundedScreen

_DETAILS_SECONDS = 10.0


def measure_screen(
    screen: BoundedScreen, path: Path, graph: str, cache: Path, repetitions: int, picture: Path
) -> Measured:
    """Open it several times, each with a server and a browser that have seen nothing."""
    return {"runs": [_open(screen, path, graph, cache, picture) for _ in range(repetitions)]}


def _open(screen: BoundedScreen, path: Path, graph: str, cache: Path, picture: Path) -> Measured:
    with lowtide_view(path, cache) as server, open_browser() as browser:
        seen = open_graph(browser, server, graph, _query(screen, server, graph))
        boxes = browser.call("window.lowtide.drawn()")
        number = _expected(screen, server, graph, browser, boxes)
        found = browser.wait_for(f"document.body.innerText.includes('{number:,}') || null", _DETAILS_SECONDS)
        longest = browser.call("recorder.longest()")
        picture.parent.mkdir(parents=True, exist_ok=True)
        browser.picture(picture)
        return seen | {
            "boxes": len(boxes),
            "not_shown": number,
            "said": bool(found),
            "task_ms": longest["task"],
            **browser.added(),
            "server_bytes": server.bytes,
        }


def _query(screen: BoundedScreen, server: PageServer, graph: str) -> str:
    name = quote(screen.name, safe="/:")
    if screen.kind == "inputs":
        return f"around={name}&hops=1&direction=inputs"
    trail = _trail(screen, server, graph)
    if screen.kind == "details":
        return f"open={joined(trail)}&select={name}"
    return f"open={joined([*trail, screen.name])}"


def _trail(screen: BoundedScreen, server: PageServer, graph: str) -> list[str]:
    """What has to be open for it to be seen."""
    kind = "node" if screen.kind == "details" else "scope"
    with contextlib.suppress(HTTPError):
        return list(server.ask(f"api/graph/{graph}/trail", part=0, name=screen.name, kind=kind)["trail"])
    parts = screen.name.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def _expected(
    screen: BoundedScreen, server: PageServer, graph: str, browser: Browser, boxes: list[dict[str, Any]]
) -> int:
    """The number that has to be on the screen: of nodes in groups, of inputs that are left out, or of all inputs."""
    if screen.kind == "details":
        return screen.members or 0
    if screen.kind == "inputs":
        # The node itself is among the boxes.
        return (screen.members or 0) - (len(boxes) - 1)
    opened = browser.call("window.lowtide.state()")["open"]
    if screen.name not in opened:
        raise RuntimeError(f"{screen.name} is not open; open are {opened}")
    return folded_nodes(boxes, opened)


def folded_nodes(boxes: Iterable[Mapping[str, Any]], opened: Iterable[str]) -> int:
    """How many nodes are in groups that are not open."""
    known = set(opened)
    return sum(box["count"] for box in boxes if box["kind"] != "node" and box["id"] not in known)
