"""As many boxes as the page draws, in sight at once and moved in every frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common.cache import Measured
from benchmarks.explore.browser import open_browser
from benchmarks.explore.page import joined, open_graph
from benchmarks.explore.servers import PageServer, lowtide_view
from benchmarks.explore.suite import MOST_BOXES

_PANNING_MS = 3000
# The page closes what was opened first when it would draw more; and an address has a length.
_ENOUGH, _MOST_OPEN = 0.95 * MOST_BOXES, 400


def measure_crowd(path: Path, graph: str, cache: Path, repetitions: int) -> Measured:
    """Several times, each with a server and a browser that have seen nothing."""
    return {"runs": [_crowd(path, graph, cache) for _ in range(repetitions)]}


def _crowd(path: Path, graph: str, cache: Path) -> Measured:
    with lowtide_view(path, cache) as server, open_browser() as browser:
        opened = open_graph(browser, server, graph, f"open={joined(choose_open(server, graph))}")
        blocked = browser.call("recorder.longest()")
        browser.call("[...document.querySelectorAll('button')].find((button) => button.textContent === 'Fit').click()")
        before = browser.busy_seconds()
        moved = browser.call("recorder.pan(given[0])", _PANNING_MS)
        busy = browser.busy_seconds() - before
        return opened | {
            "boxes": browser.call("window.lowtide.drawn().length"),
            "boxes_in_sight": browser.call("recorder.visible()"),
            "task_ms": blocked["task"],
            "frames_per_second": 1000 * moved["frames"] / moved["milliseconds"],
            "longest_frame_ms": moved["longest"],
            "busy_ms_a_frame": 1000 * busy / moved["frames"],
            **browser.added(),
        }


def choose_open(server: PageServer, graph: str) -> list[str]:
    """What to open so that nearly as many boxes are drawn as the page allows, the larger things first."""
    waiting = [("", "")]
    keys: list[str] = []
    count = 0
    for path, fold in waiting:
        items = server.ask(f"api/graph/{graph}/screen", part=0, path=path, fold=fold)["items"]
        if count + len(items) >= MOST_BOXES:
            continue
        count += len(items)
        key = f"{path}|{fold}" if fold else path
        keys += [key] if key else []
        if len(keys) >= _MOST_OPEN or count > _ENOUGH:
            break
        waiting += [item["key"].partition("|")[::2] for item in _openable(items)]
    return keys


def _openable(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    inner = (item for item in items if item["kind"] not in ("node", "function"))
    return sorted(inner, key=lambda item: -item["nodes"])
