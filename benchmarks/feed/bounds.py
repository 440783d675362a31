"""The recorded memory of pipelines against their bounds, and of feeds against their budgets, run by run.

python -m benchmarks.feed.bounds                        three runs of everything, with each allocator
python -m benchmarks.feed.bounds --allocator library --beside 3 --only photos

Runs are kept in results/part.bounds.jsonl as they end: the same command continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common.cache import setting
from benchmarks.common.processes import MEBIBYTE
from benchmarks.common.report import Bar, Section, mebibytes, to_markdown
from benchmarks.feed.child import WORKS
from benchmarks.feed.feeds import FEEDS
from benchmarks.feed.pipelines import PIPELINES
from lowtide.units import parse_bytes

RESULTS = Path(__file__).parent / "results"
KEPT = RESULTS / "part.bounds.jsonl"
RUNS = 3
# What TensorFlow's tensors come from: its own allocator where oneDNN is on, and the C library where it is off.
ALLOCATORS = {"library": {"TF_ENABLE_ONEDNN_OPTS": "0"}, "onednn": {"TF_ENABLE_ONEDNN_OPTS": "1"}}
TITLES = {"library": "the C library's allocator", "onednn": "TensorFlow's allocator for oneDNN"}
LONGEST_SECONDS = 15
# A run ends earlier if its memory has not grown for this long: then its buffers are full.
SETTLED_SECONDS = 3
Key = tuple[str, str, str, int]
"""What ran, its name, the allocator, and the number of the run."""


def _busy() -> None:
    """Compute and sleep in turns of random length, so that threads are interrupted anywhere."""
    while True:
        until = time.perf_counter() + random.random() * 0.2
        while time.perf_counter() < until:
            sum(range(1_000))
        time.sleep(random.random() * 0.05)


@contextmanager
def load(count: int) -> Iterator[None]:
    """Keep the processors busy with other processes."""
    others = [multiprocessing.Process(target=_busy, daemon=True) for _ in range(count)]
    for each in others:
        each.start()
    try:
        yield
    finally:
        for each in others:
            each.kill()
            each.join()


def run_forked(work: str, name: str, folder: Path) -> dict[str, Any]:
    """Run in a copy of this process, which has imported TensorFlow but not used it: importing takes most of a run."""
    given = {"way": name, "folder": folder, "allocator": False, "pause": 0.02}
    options = argparse.Namespace(**given, longest=LONGEST_SECONDS, settled=SETTLED_SECONDS)
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            result = WORKS[work](options)
        except Exception as error:
            result = {"failed": f"{type(error).__name__}: {error}"[:300]}
        with os.fdopen(writing, "w") as file:
            file.write(json.dumps({**result, "text": None}))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        ready, _, _ = select.select([file], [], [], 300)
        content = file.read() if ready else ""
    if not ready:
        os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return json.loads(content) if content else {"failed": "no answer"}


def read_kept() -> dict[Key, dict[str, Any]]:
    if not KEPT.exists():
        return {}
    rows = [json.loads(line) for line in KEPT.read_text().splitlines()]
    return {tuple(row["key"]): row["result"] for row in rows}  # type: ignore[misc]


def run_all(folder: Path, allocator: str, beside: int, only: str, runs: int) -> None:
    """Make the runs that are not kept yet: the first run of everything, then the second."""
    names = [("pipeline", name) for name in PIPELINES] + [("feed", name) for name in FEEDS]
    names = [(work, name) for work, name in names if only in name]
    planned: list[Key] = [(work, name, allocator, run) for run in range(runs) for work, name in names]
    planned += [("forecast", name, allocator, 0) for work, name in names if work == "pipeline"]
    known = read_kept()
    with load(beside):
        for key in planned:
            if "failed" in known.get(key, {"failed": ""}):
                work, name, _, _ = key
                _make_files(work, name, folder)
                result = run_forked(work, name, folder)
                with KEPT.open("a") as file:
                    file.write(json.dumps({"key": key, "result": {**result, "beside": beside}}) + "\n")
                seen = result.get("recorded_bytes", result.get("safe_bytes"))
                print(f"  {key} {mebibytes(seen)} {result.get('failed', '')}", flush=True)


def _make_files(work: str, name: str, folder: Path) -> None:
    """Run once without measuring: the first run makes the files of a set, which takes memory of its own."""
    made = folder / "made" / f"{work} {name}"
    if not made.exists():
        run_forked(work, name, folder)
        made.parent.mkdir(parents=True, exist_ok=True)
        made.touch()


def assemble() -> list[Section]:
    """The tables of all runs that are kept."""
    known = read_kept()
    return [_table(allocator, known) for allocator in ALLOCATORS if any(key[2] == allocator for key in known)]


def _table(allocator: str, known: dict[Key, dict[str, Any]]) -> Section:
    cells, above, complete = [], [], {"pipeline": 0, "feed": 0}
    for work, names in (("pipeline", list(PIPELINES)), ("feed", list(FEEDS))):
        for name in names:
            found = [known.get((work, name, allocator, run), {}) for run in range(RUNS)]
            seen = [run["recorded_bytes"] for run in found if "recorded_bytes" in run]
            forecast = known.get(("forecast", name, allocator, 0), {})
            bound = parse_bytes(FEEDS[name].budget) if work == "feed" else forecast.get("safe_bytes")
            if bound is None or not seen:
                continue
            complete[work] += len(seen) == RUNS
            if max(seen) > bound:
                above.append(name)
            shown = ", ".join(mebibytes(each) for each in seen)
            share = f"{max(seen) / bound:.2f}"
            kind = "budget" if work == "feed" else "bound"
            cells.append([name.replace("_", " "), mebibytes(forecast.get("peak_bytes")) if forecast else "",
                          f"{bound / MEBIBYTE:,.0f} ({kind})", shown, mebibytes(max(seen)), share])  # fmt: skip
    total = len(cells)
    loads = sorted({result["beside"] for key, result in known.items() if key[2] == allocator})
    words = f"with {TITLES[allocator]}, no run of {complete['pipeline']} pipelines and {complete['feed']} feeds above"
    bar = Bar(f"{words} its bound or budget", f"{total - len(above)} of {total}", not above and bool(total))
    note = f"Beside the runs, {' or '.join(map(str, loads))} processes kept the processors busy."
    columns = ("pipeline or feed", "expected", "bound", "runs", "worst run", "of the bound")
    return Section(f"Bounds with {TITLES[allocator]}", columns, cells, [bar], [note])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("out/feed"), help="where the sets are made")
    parser.add_argument("--allocator", choices=list(ALLOCATORS), action="append", help="may be repeated; both without")
    parser.add_argument("--beside", type=int, default=0, help="processes that keep the processors busy")
    parser.add_argument("--only", default="", help="a part of the name")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--assemble", action="store_true", help="run nothing")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    for allocator in [] if options.assemble else options.allocator or list(ALLOCATORS):
        environment = {**os.environ, **ALLOCATORS[allocator], "TF_CPP_MIN_LOG_LEVEL": "2"}
        if ALLOCATORS[allocator].items() <= os.environ.items():
            run_all(options.folder.resolve(), allocator, options.beside, options.only, options.runs)
            return
        # TensorFlow chooses the allocator when it is imported.
        given = ["--allocator", allocator, "--folder", str(options.folder), "--beside", str(options.beside)]
        given += ["--only", options.only, "--runs", str(options.runs)]
        subprocess.run([sys.executable, "-m", "benchmarks.feed.bounds", *given], env=environment, check=True)
    path = RESULTS / "bounds.md"
    path.write_text(to_markdown(assemble(), setting(), title="Bounds of pipelines and feeds"))
    print(path.read_text())


if __name__ == "__main__":
    main()
