"""Records real runs and shows them beside TensorFlow's own message and XProf's memory profile.

python -m benchmarks.measure                             everything; what is in the cache is not run again
python -m benchmarks.measure --only rnn                  the cases whose name contains this
python -m benchmarks.measure --xprof PYTHON              with an interpreter that has the package xprof
python -m benchmarks.measure --assemble                  run nothing: the table of what is in the cache
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.common.cache import CachedRuns, Measured, add_cache_options, digest, setting
from benchmarks.common.processes import ROOT
from benchmarks.common.report import bars_markdown
from benchmarks.measure.cases import EXHAUSTIONS, TRAININGS, Exhaustion, Training, matches
from benchmarks.measure.exhaustion import exhaust_plain, exhaust_recorded, try_batch
from benchmarks.measure.processes import PROGRAMS, Failed
from benchmarks.measure.rows import ExhaustionRow, TrainingRow, bars
from benchmarks.measure.table import to_markdown
from benchmarks.measure.training import measure_plain, measure_recorded, measure_xprof

RESULTS = Path(__file__).parent / "results"


class MeasureRuns(CachedRuns):
    """Plain and recorded runs of programs. A plain run does not depend on lowtide's source."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options, digest(PROGRAMS), digest(ROOT / "src" / "lowtide", PROGRAMS))

    def once(self, name: str, work: Callable[[], Measured], *stamp: Any, by_lowtide: bool = False) -> Measured:
        def guarded() -> Measured:
            try:
                return work()
            except Failed as failure:
                return {"failed": str(failure)}

        return super().once(name, guarded, *stamp, by_lowtide=by_lowtide)

    def describe(self, result: Measured) -> str:
        if "failed" in result:
            return f"FAILED: {result['failed']}"
        for part in ("causes", "fits", "way"):
            if part in result:
                return str(result[part])
        seconds = result.get("process_seconds")
        return "" if seconds is None else f"{seconds:.1f} s"


def run_training(case: Training, runs: MeasureRuns, options: argparse.Namespace) -> TrainingRow:
    """Plain and recorded runs in turn, so that what else the machine does falls on both."""
    plain, recorded = [], []
    for pair in range(1, options.pairs + 1):
        plain.append(runs.once(f"{case.name} plain {pair}", lambda: measure_plain(case)))
        recorded.append(runs.once(f"{case.name} recorded {pair}", lambda: measure_recorded(case), by_lowtide=True))
    xprof = None
    if options.xprof or options.assemble:
        xprof = runs.once(f"{case.name} xprof", lambda: measure_xprof(case, options.xprof)) or None
    return TrainingRow(case, tuple(plain), tuple(recorded), xprof)


def run_exhaustion(case: Exhaustion, runs: MeasureRuns) -> ExhaustionRow:
    """The message, the explanation, and for a batch that is too large the one that is said to fit, and twice that."""
    plain = runs.once(f"{case.name} plain", lambda: exhaust_plain(case))
    recorded = runs.once(f"{case.name} recorded", lambda: exhaust_recorded(case), by_lowtide=True)
    largest = recorded.get("largest_batch_size")
    tried = []
    for batch in (largest, 2 * largest) if largest else ():
        tried.append(runs.once(f"{case.name} batch {batch}", lambda batch=batch: try_batch(case, batch)))
    return ExhaustionRow(case, plain, recorded, tuple(tried))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="part of a name; may be repeated")
    parser.add_argument("--pairs", type=int, default=3, help="plain and recorded runs of each program that trains")
    parser.add_argument("--xprof", metavar="PYTHON", help="an interpreter that has the package xprof")
    parser.add_argument("--jobs", type=int, default=4, help="cases that run out of memory at once: they mostly wait")
    add_cache_options(parser, RESULTS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    trainings = [case for case in TRAININGS if matches(case.name, options.only)]
    exhaustions = [case for case in EXHAUSTIONS if matches(case.name, options.only)]
    if not trainings and not exhaustions:
        raise SystemExit(f"error: no case matches {options.only}; see benchmarks/measure/cases.py")
    runs = MeasureRuns(options)
    rows = []
    for index, case in enumerate(trainings, 1):
        print(f"[{index}/{len(trainings)}] {case.name}", flush=True)
        rows.append(run_training(case, runs, options))
    print(f"out of memory: {len(exhaustions)} cases", flush=True)
    # Nothing is timed in these, so several may run at once.
    with ThreadPoolExecutor(options.jobs) as pool:
        explained = list(pool.map(lambda case: run_exhaustion(case, runs), exhaustions))
    print("\n" + "\n".join(bars_markdown(bars(rows, explained))))
    # A part gets a file of its own, so that it never replaces the whole table.
    path = options.results / ("part.md" if options.only else "table.md")
    options.results.mkdir(parents=True, exist_ok=True)
    path.write_text(to_markdown(rows, explained, setting()))
    print(f"\nwritten: {path}")


if __name__ == "__main__":
    main()
