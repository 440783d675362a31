"""The page as a user meets it: opened, a scope expanded, something searched."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.common.cache import Measured
from benchmarks.explore.browser import Browser, open_browser
from benchmarks.explore.servers import PageServer, lowtide_view

DRAWING = "window.lowtide?.firstDrawing"
DRAWING_SECONDS = 120.0
# What is in every training step, what is in few nodes, and what is in none.
QUERIES = ("matmul", "block_1", "bias", "zq")


def measure_page(path: Path, graph: str, cache: Path, repetitions: int) -> Measured:
    """Everything, several times, each with a server and a browser that have seen nothing."""
    return {"runs": [_use(path, graph, cache) for _ in range(repetitions)]}


def measure_opened(path: Path, graph: str, cache: Path, repetitions: int) -> Measured:
    """The first drawing alone, and the details of a constant if there is one, several times."""
    return {"runs": [_look(path, graph, cache) for _ in range(repetitions)]}


def _look(path: Path, graph: str, cache: Path) -> Measured:
    with lowtide_view(path, cache) as server, open_browser() as browser:
        seen = open_graph(browser, server, graph)
        for constant in server.ask(f"api/graph/{graph}/search", q="kernel", op="Const", limit=10)["results"]:
            server.ask(f"api/graph/{graph}/node", part=constant["part"], name=constant["name"])
        longest = browser.call("recorder.longest()")
        seen |= {"task_ms": longest["task"], "gap_ms": longest["gap"]}
        return seen | {**browser.added(), "server_bytes": server.bytes}


def _use(path: Path, graph: str, cache: Path) -> Measured:
    with lowtide_view(path, cache) as server, open_browser() as browser:
        seen = open_graph(browser, server, graph)
        seen |= {**browser.added(), "server_bytes": server.bytes}
        seen |= _expand(browser) | _search(browser)
        longest = browser.call("recorder.longest()")
        seen |= {"task_ms": longest["task"], "gap_ms": longest["gap"]}
        used = {**browser.added("used_"), "used_server_bytes": server.bytes}
        return seen | {**used, "server_resident_bytes": server.resident_bytes}


def open_graph(browser: Browser, server: PageServer, graph: str, query: str = "") -> Measured:
    """Go to a graph and wait until it is drawn."""
    browser.open(address_of(server, graph, query))
    drawing = browser.wait_for(DRAWING, DRAWING_SECONDS)
    if drawing is None:
        raise RuntimeError(
            f"nothing was drawn within {DRAWING_SECONDS:.0f} s; the page says: {browser.text()[-200:]!r}"
        )
    return {"drawing_ms": drawing, "start_seconds": server.start_seconds}


def address_of(server: PageServer, graph: str, query: str = "") -> str:
    return f"{server.address}#graph/{graph}{f'?{query}' if query else ''}"


def joined(keys: Iterable[str]) -> str:
    """Keys as the address holds them."""
    return ";".join(quote(key, safe="/:") for key in keys)


def openable(boxes: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What can be opened, the largest first."""
    return sorted((box for box in boxes if box["kind"] != "node"), key=lambda box: -box["count"])


def _expand(browser: Browser) -> Measured:
    """Open the largest thing of the first screen and one in the middle, and close them again."""
    groups = openable(browser.call("window.lowtide.drawn()"))
    found: Measured = {"boxes": browser.call("window.lowtide.drawn().length")}
    if not groups:
        return found
    for name, group in (("largest", groups[0]), ("middle", groups[len(groups) // 2])):
        took = browser.call("recorder.toggle(given[0])", group["id"])
        browser.call("recorder.toggle(given[0])", group["id"])
        if took["rest"] is None:
            raise RuntimeError(f"{group['id']} did not open")
        found |= {f"{name}_shown_ms": took["shown"], f"{name}_ms": took["rest"], f"{name}_nodes": group["count"]}
    return found


def _search(browser: Browser) -> Measured:
    """Type, and take the slowest of all answers: by the server, and until it is shown."""
    browser.call("recorder.answers()")
    shown = [time for query in QUERIES for time in browser.call("recorder.type(given[0])", query)]
    answers = browser.call("recorder.answers()")
    if None in shown:
        raise RuntimeError("a search was not answered")
    return {"answer_ms": max(answers), "answers": len(answers), "results_ms": max(shown)}
