"""TensorBoard's graph page on the same event file, measured in the same way."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.cache import Measured
from benchmarks.explore.browser import open_browser
from benchmarks.explore.servers import tensorboard

LIMIT_SECONDS = 300.0


def measure_tensorboard(events: Path, repetitions: int) -> Measured:
    """Several times, each with a server and a browser that have seen nothing."""
    return {"runs": [_open(events.parent) for _ in range(repetitions)]}


def _open(folder: Path) -> Measured:
    with tensorboard(folder) as server, open_browser() as browser:
        browser.open(f"{server.address}#graphs&run=.")
        drawing = browser.wait_for("window.recorder?.peerDrawing", LIMIT_SECONDS)
        longest = browser.wait_for("window.recorder?.longest()", LIMIT_SECONDS) or {"task": None, "gap": None}
        return {
            "drawing_ms": drawing,
            "start_seconds": server.start_seconds,
            **browser.added(),
            "server_bytes": server.bytes,
            "task_ms": longest["task"],
            "gap_ms": longest["gap"],
        }
