"""The worker process that reads files and builds indexes, so that the server stays small and responsive.

Each line of standard input is a request: `{"inspect": PATH}`, or `{"build": [PATH, START, END, LABEL, IS_SETTLED]}`.
The answer is lines of JSON: any number of `{"progress": ...}`, then `{"done": ...}` or `{"error", "cure"}`. The process
ends with its input, or when its output is closed.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from lowtide.atlas.atlas import Source
from lowtide.atlas.index_cache import build_atlas
from lowtide.cache.folder import cache_folder
from lowtide.errors import LowtideError
from lowtide.progress import Progress
from lowtide.sources.graphs.find_graphs import RUN, Span, find_graphs
from lowtide.sources.graphs.function_names import count_nodes
from lowtide.sources.graphs.mapped_file import map_file

Send = Callable[[dict[str, Any]], None]

# The page asks no more often than this.
_SECONDS_BETWEEN_PROGRESS = 0.05
# Counting takes about a second for a million nodes; the index of a larger graph counts it anyway.
_MOST_COUNTED_BYTES = 128 << 20


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGTERM, _end)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")

    def send(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        for line in sys.stdin:
            send(handle_request(json.loads(line), send))
    except BrokenPipeError:
        # The server has ended.
        os._exit(0)


def _end(*_: object) -> None:
    """Exit through the interpreter, so that a half-built index is removed without interruption."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def handle_request(request: dict[str, Any], send: Send) -> dict[str, Any]:
    """Handle a request, and return the last line of the answer."""
    try:
        return {"done": _inspect(Path(request["inspect"])) if "inspect" in request else _build(request["build"], send)}
    except LowtideError as error:
        return {"error": error.problem, "cure": error.cure or ""}
    except BrokenPipeError:
        raise
    except OSError as error:
        return {"error": f"cannot read it: {error.strerror}", "cure": "check that the file exists and is readable"}
    except Exception as error:
        name = type(error).__name__
        return {"error": f"it cannot be read ({name})", "cure": "this is a bug in lowtide: please report it"}


def _inspect(path: Path) -> dict[str, Any]:
    found = find_graphs(path, cache_folder() / "converted")
    if found.kind == "tide":
        from lowtide.tide.tide import Tide
        from lowtide.view.reports.tide import TideReport

        tide = Tide.load(path)
        facts = {"title": TideReport(tide).title, "peak_bytes": tide.peak_bytes, "method": tide.method}
    elif found.kind == "plan":
        from lowtide.planning.plan import Plan
        from lowtide.view.reports.plan import PlanReport

        facts = {"title": PlanReport(Plan.load(path)).title}
    elif found.kind == RUN:
        from lowtide.view.reports.training_run import read_run_report

        report = read_run_report(path.parent)
        facts = {"title": report.title, "steps": report.steps_done}
    else:
        facts = {}
    spans = [asdict(span) | {"path": str(span.path)} for span in found.spans]
    return {
        "kind": found.kind,
        "notes": found.notes,
        "spans": spans,
        "node_counts": _count_nodes(found.spans),
        "facts": facts,
    }


def _count_nodes(spans: tuple[Span, ...]) -> list[int | None]:
    """Return the number of nodes of each graph; None for those that take long to count."""
    counts: dict[Span, int] = {}
    left = _MOST_COUNTED_BYTES
    for path, same_file in groupby(spans, lambda span: span.path):
        with map_file(path) as data:
            for span in same_file:
                left -= span.end - span.start
                if left >= 0:
                    counts[span] = count_nodes(data, span.start, span.end)
    return [counts.get(span) for span in spans]


def _build(given: list[Any], send: Send) -> dict[str, Any]:
    last_sent = 0.0

    def report(progress: Progress) -> None:
        nonlocal last_sent
        if time.monotonic() - last_sent >= _SECONDS_BETWEEN_PROGRESS:
            last_sent = time.monotonic()
            send({"progress": asdict(progress)})

    path, start, end, label, is_settled = given
    atlas = build_atlas(Source(Path(path), start, end, label, is_settled), report)
    return {"folder": str(atlas.folder), "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


if __name__ == "__main__":
    main()
