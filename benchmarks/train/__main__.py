"""Disturbs trainings in every way, and shows that each ends as an undisturbed one; beside it, what Keras offers.

python -m benchmarks.train                      everything; what is in the cache is not run again
python -m benchmarks.train --part faults --runs 20 --peers 5
python -m benchmarks.train --only "kill cnn"    part of a run's name; may be repeated
python -m benchmarks.train --assemble           run nothing: the table of what is in the cache
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.common.cache import add_cache_options, setting
from benchmarks.common.report import Section, bars_markdown, to_markdown
from benchmarks.train import exhaustion, faults, overhead
from benchmarks.train.runs import TrainRuns

RESULTS = Path(__file__).parent / "results"
PARTS = ("faults", "exhaustion", "overhead")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="may be repeated; all of them without it")
    parser.add_argument("--only", action="append", default=[], help="part of a run's name; may be repeated")
    parser.add_argument("--runs", type=int, default=200, help="runs with a fault under lowtide train")
    parser.add_argument("--peers", type=int, default=40, help="of these, how many with BackupAndRestore as well")
    parser.add_argument("--minutes", type=float, help="begin no further run after so many minutes")
    add_cache_options(parser, RESULTS)
    return parser.parse_args()


def measure_faults(options: argparse.Namespace, runs: TrainRuns) -> Section:
    chosen = faults.cases(options.runs, options.peers)
    if not faults.can_mount() and not options.assemble:
        print("no small disk can be mounted here: runs with a full disk are left out")
        chosen = [case for case in chosen if case.fault != "disk"]
    chosen = [case for case in chosen if not options.only or any(part in case.name for part in options.only)]
    until = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    measured = []
    for case in chosen:
        if until is None or time.monotonic() < until:
            measured.append((case, faults.measure(case, runs)))
    return faults.report(measured, faults.measure_spread(chosen, runs))


def measure_exhaustion(options: argparse.Namespace, runs: TrainRuns) -> Section:
    chosen = [name for name in exhaustion.BATCHES if not options.only or any(part in name for part in options.only)]
    return exhaustion.report([exhaustion.measure(program, runs) for program in chosen])


def main() -> None:
    options = parse()
    found: list[Section] = []
    earlier: list[str] = []
    parts = {
        "faults": (faults.SCRIPT, measure_faults),
        "exhaustion": (exhaustion.SCRIPT, measure_exhaustion),
        "overhead": (overhead.SCRIPT, lambda options, runs: overhead.measure(runs)),
    }
    for part in options.part or PARTS:
        script, measure = parts[part]
        runs = TrainRuns(options, script)
        found.append(measure(options, runs))
        earlier += runs.earlier
    print("\n" + "\n".join(bars_markdown(bar for section in found for bar in section.bars)))
    is_part = options.only or options.part
    path = options.results / ("part.md" if is_part else "table.md")
    options.results.mkdir(parents=True, exist_ok=True)
    path.write_text(to_markdown(found, setting(), earlier, title="Training to the end"))
    print(f"\nwritten: {path}")


if __name__ == "__main__":
    main()
