"""Plans, trains and compares: every figure that lowtide's plans are held to, beside its peers.

python -m benchmarks.fit                          everything; what is in the cache is not run again
python -m benchmarks.fit --quick                  two programs, in a few minutes
python -m benchmarks.fit --only unet --part cost  a program and a part; both may be repeated
python -m benchmarks.fit --assemble               run nothing: the table of what is in the cache
python -m benchmarks.fit --ablate --only mlp      plan with each number of planning/tuning.py varied; nothing is trained
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from benchmarks.common.cache import add_cache_options, setting
from benchmarks.common.report import Section, bars_markdown, to_markdown
from benchmarks.fit import ablation, batches, cost, exactness, ordering, promise, speed
from benchmarks.fit.runs import Runs
from benchmarks.fit.suite import LARGER_BATCHES, Case, select

Row = TypeVar("Row")

RESULTS = Path(__file__).parent / "results"
PARTS = ("promise", "exactness", "cost", "order", "batch", "speed", "optimality")
# What a quick run leaves out: published models are large, and small graphs are solved exactly for minutes.
SLOW_PARTS = ("speed", "optimality")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="part of a program's name; may be repeated")
    parser.add_argument("--part", action="append", choices=PARTS, help="may be repeated; all of them without it")
    parser.add_argument("--quick", action="store_true", help="two programs, and one budget")
    parser.add_argument("--jobs", type=int, default=1, help="programs at once in the parts that time nothing")
    parser.add_argument("--without-peers", action="store_true", help="nothing but plain and planned steps")
    parser.add_argument("--ablate", action="store_true", help="what each tuned number of planning buys; takes hours")
    parser.add_argument("--number", action="append", default=[], help="with --ablate: part of a number's name")
    add_cache_options(parser, RESULTS)
    return parser.parse_args()


def sections(chosen: list[Case], parts: list[str], runs: Runs, options: argparse.Namespace) -> Iterator[Section]:
    """Each part over all programs. Only where nothing is timed may several run at once."""
    shares = promise.PROMISED_SHARES[1:2] if options.quick else promise.PROMISED_SHARES
    if "promise" in parts:
        peers = promise.PEERS[:1] if options.without_peers else promise.PEERS
        rows = _each("promise", chosen, lambda case: promise.measure(case, runs, shares, peers), options.jobs)
        yield promise.report([row for found in rows for row in found])
    if "exactness" in parts:
        yield exactness.report(_each("exactness", chosen, lambda case: exactness.measure(case, runs), options.jobs))
    costs: dict[str, cost.CostRow] = {}
    if "cost" in parts:
        timed = _each("cost", chosen, lambda case: cost.measure(case, runs, with_peers=not options.without_peers))
        costs = {row.case.name: row for row in timed}
        yield cost.report(timed)
    if "order" in parts:
        ordered = _each("order", chosen, lambda case: ordering.measure(case, runs, costs.get(case.name)), options.jobs)
        yield ordering.report(ordered)
    if "batch" in parts:
        larger = [case for case in chosen if case.name in LARGER_BATCHES]
        yield batches.report(_each("batch", larger, lambda case: batches.measure(case, runs), options.jobs))
    if "speed" in parts:
        print("speed", flush=True)
        yield speed.report([speed.measure(planning, runs) for planning in speed.PLANNINGS])


def _each(part: str, chosen: list[Case], measure: Callable[[Case], Row], jobs: int = 1) -> list[Row]:
    def measured(numbered: tuple[int, Case]) -> Row:
        print(f"{part} [{numbered[0]}/{len(chosen)}] {numbered[1].name}", flush=True)
        return measure(numbered[1])

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(measured, enumerate(chosen, 1)))


def solve_exactly() -> None:
    """The comparison with an exact solver is a program of its own and writes a table of its own."""
    module = "benchmarks.fit.optimality"
    if importlib.util.find_spec(module) is None:
        print("optimality: not here")
        return
    print("optimality", flush=True)
    subprocess.run([sys.executable, "-m", module], check=False)


def main() -> None:
    options = parse()
    chosen = select(options.only, options.quick)
    if not chosen:
        raise SystemExit(f"error: no program matches {options.only}; see benchmarks/fit/suite.py")
    if options.ablate:
        options.results.mkdir(parents=True, exist_ok=True)
        ablation.write(
            ablation.measure(chosen, options.number), options.results / "ablation.md", ", ".join(setting().values())
        )
        return
    parts = options.part or [part for part in PARTS if not (options.quick and part in SLOW_PARTS)]
    runs = Runs(options)
    found = list(sections(chosen, parts, runs, options))
    if "optimality" in parts and not options.assemble:
        solve_exactly()
    print("\n" + "\n".join(bars_markdown(bar for section in found for bar in section.bars)))
    # A part gets a file of its own, so that it never replaces the whole table.
    is_part = options.only or options.part or options.quick
    path = options.results / ("part.md" if is_part else "table.md")
    options.results.mkdir(parents=True, exist_ok=True)
    path.write_text(to_markdown([section for section in found if section.cells], setting(), runs.earlier))
    print(f"\nwritten: {path}")


if __name__ == "__main__":
    main()
