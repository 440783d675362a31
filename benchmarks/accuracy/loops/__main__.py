"""Compares the predicted usual peak and bound of steps with loops with recorded steps of many processes.

python -m benchmarks.accuracy.loops                              20 processes of 50 steps for each program
python -m benchmarks.accuracy.loops --processes 4 --steps 20 --only lstm

Every second process runs beside a load: as many busy processes as the machine has processors.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.accuracy.__main__ import source_digest
from benchmarks.accuracy.loops.programs import PROGRAMS
from benchmarks.accuracy.loops.table import LoopProgram, to_markdown
from benchmarks.common.cache import Cache, digest, key_of, setting
from benchmarks.common.processes import AMPLE_BYTES, allocator_environment, run_module

RESULTS = Path(__file__).parents[1] / "results"
TIMEOUT_SECONDS = 900.0
# The first steps still move variables to where they stay.
WARM_UP_STEPS = 2


# Keeps one processor busy.
_TURN = "while True: sum(range(100_000))"


@contextmanager
def load(busy: bool) -> Iterator[None]:
    """Keep all processors busy meanwhile, if `busy`."""
    count = len(os.sched_getaffinity(0)) if busy else 0
    workers = [subprocess.Popen([sys.executable, "-c", _TURN]) for _ in range(count)]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def record(name: str, number: int, steps: int, cache: Cache, fresh: bool) -> dict[str, Any]:
    """Return the peaks of one process, from the cache if it has run before."""
    busy = number % 2 == 1
    key = key_of(name, "busy" if busy else "alone", number, steps, digest(Path(__file__).parent / "programs.py"))
    known = None if fresh else cache.find("loops", key)
    if known is None or "failed" in known:
        with load(busy):
            known = run_module(
                "benchmarks.accuracy.loops.child",
                [name, "--steps", str(steps + WARM_UP_STEPS)],
                allocator_environment(AMPLE_BYTES),
                TIMEOUT_SECONDS,
            )
        cache.add("loops", key, known)
    return known


def predicted(name: str, cache: Cache, fresh: bool) -> dict[str, Any]:
    """Return the prediction of a program, from the cache if this version of lowtide has made it before."""
    key = key_of(name, "predicted", source_digest(), digest(Path(__file__).parent / "programs.py"))
    known = None if fresh else cache.find("loops", key)
    if known is None or "failed" in known:
        known = run_module("benchmarks.accuracy.loops.child", [name], {}, TIMEOUT_SECONDS)
        cache.add("loops", key, known)
    return known


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="part of a name; may be repeated")
    parser.add_argument("--processes", type=int, default=20, help="processes for each program")
    parser.add_argument("--steps", type=int, default=50, help="steps of each process")
    parser.add_argument("--fresh", action="store_true", help="run and predict again what is in the cache")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the cache and the table")
    return parser.parse_args()


def main() -> None:
    options = parse()
    cache = Cache(options.results)
    names = [name for name in PROGRAMS if not options.only or any(part in name for part in options.only)]
    programs = []
    for name in names:
        prediction = predicted(name, cache, options.fresh)
        runs = [record(name, number, options.steps, cache, options.fresh) for number in range(options.processes)]
        failed = [run["failed"] for run in (prediction, *runs) if "failed" in run]
        if failed:
            print(f"{name}: {failed[0]}", flush=True)
        runs = [run for run in runs if "failed" not in run]
        if not runs or "failed" in prediction:
            continue
        peaks = [tuple(run["peaks"][WARM_UP_STEPS:]) for run in runs]
        program = LoopProgram(
            name, tuple(peaks), prediction["peak_bytes"], prediction["highest_bytes"], prediction["safe_bytes"]
        )
        programs.append(program)
        usual = statistics.median(program.recorded) / 2**20
        print(f"{name:24s} recorded {usual:8.1f} MiB, predicted {program.usual_bytes / 2**20:8.1f}", flush=True)
    # A part of the programs never replaces the table.
    name = "loops.md" if names == list(PROGRAMS) else "loops_part.md"
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / name).write_text(to_markdown(programs, setting()))


if __name__ == "__main__":
    main()
