"""Indexes, opens, expands, searches and moves graphs of all sizes in a real browser, TensorBoard beside them.

python -m benchmarks.explore                          everything; what is in the cache is not measured again
python -m benchmarks.explore --quick                  four small graphs, once, in a few minutes
python -m benchmarks.explore --only wide --part index a graph and a part; both may be repeated
python -m benchmarks.explore --assemble               measure nothing: the table of what is in the cache
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common.cache import Measured, add_cache_options
from benchmarks.common.processes import ROOT
from benchmarks.common.report import Section, bars_markdown, to_markdown
from benchmarks.explore import sections
from benchmarks.explore.bounded import measure_screen
from benchmarks.explore.crowd import measure_crowd
from benchmarks.explore.fuzz import fuzz, make_seeds, read_seeds, seeds_for
from benchmarks.explore.graphs import prepare
from benchmarks.explore.index import measure_index
from benchmarks.explore.page import measure_opened, measure_page
from benchmarks.explore.peers import measure_tensorboard
from benchmarks.explore.runs import ExploreRuns, surroundings
from benchmarks.explore.sections import GraphRow
from benchmarks.explore.suite import FUZZED_INPUTS, GraphCase, select
from benchmarks.explore.targets import TARGETS, FuzzTarget

RESULTS = Path(__file__).parent / "results"
GRAPHS = ROOT / "out" / "explore"
PARTS = ("index", "page", "crowd", "screens", "peers", "fuzz")
_QUICK_INPUTS = 2_000


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="part of a graph's name; may be repeated")
    parser.add_argument("--part", action="append", choices=PARTS, help="may be repeated; all of them without it")
    parser.add_argument("--quick", action="store_true", help="small graphs, once")
    parser.add_argument("--repetitions", type=int, default=5, help="of every measurement of lowtide; peers take 3")
    parser.add_argument("--without-peers", action="store_true", help="nothing but lowtide")
    parser.add_argument("--peers-large", action="store_true", help="TensorBoard also where it takes minutes")
    parser.add_argument("--inputs", type=int, default=FUZZED_INPUTS, help="damaged files, over all readers")
    parser.add_argument("--graphs", type=Path, default=GRAPHS, help="folder of the graphs and their indexes")
    add_cache_options(parser, RESULTS)
    return parser.parse_args()


class Bench:
    """All that is measured of one graph after the other."""

    def __init__(self, options: argparse.Namespace, parts: list[str]) -> None:
        self.runs = ExploreRuns(options)
        self._parts = parts
        self._graphs: Path = options.graphs.resolve()
        self._assemble = options.assemble
        self._repetitions = 1 if options.quick else options.repetitions
        self._peers = () if options.without_peers else ("always", "large") if options.peers_large else ("always",)
        self._inputs = _QUICK_INPUTS if options.quick else options.inputs

    def measure(self, case: GraphCase) -> GraphRow:
        """What is asked for of a graph. The page needs an index, so that is measured whatever is asked for."""
        path = Path() if self._assemble else prepare(case, self._graphs)
        cache = self._graphs / "indexes" / case.name
        index = self._once(f"index {case.name}", case, lambda: measure_index(path, cache, self._repetitions))
        if not index.get("runs"):
            return GraphRow(case, index)
        if not self._assemble and not cache.exists():
            # The figures are known, but the index they are of is gone.
            measure_index(path, cache, 1)
        graph = f"0.{index['runs'][0]['graph']}"
        page: Measured = {}
        if "page" in self._parts:
            measure = measure_page if case.has_page else measure_opened
            page = self._once(f"page {case.name}", case, lambda: measure(path, graph, cache, self._repetitions))
        crowd: Measured = {}
        if "crowd" in self._parts and case.is_crowded:
            work = lambda: measure_crowd(path, graph, cache, self._repetitions)  # noqa: E731
            crowd = self._once(f"crowd {case.name}", case, work)
        return GraphRow(case, index, page, crowd, self._screens(case, path, graph, cache), self._peer(case, path))

    def _screens(self, case: GraphCase, path: Path, graph: str, cache: Path) -> list[tuple[Any, Measured]]:
        found = []
        for screen in case.screens if "screens" in self._parts else ():
            name = f"screen {case.name} {screen.kind} {screen.name}"
            picture = self._graphs / "pictures" / f"{case.name}-{screen.kind}.png"
            given = (screen, path, graph, cache, self._repetitions, picture)
            found.append((screen, self._once(name, case, lambda given=given: measure_screen(*given))))
        return found

    def _peer(self, case: GraphCase, path: Path) -> Measured:
        if "peers" not in self._parts or case.peer is None or (not self._assemble and case.peer not in self._peers):
            return {}
        repetitions = 1 if case.peer == "large" else min(self._repetitions, 3)
        work = lambda: measure_tensorboard(path, repetitions)  # noqa: E731
        return self.runs.once(f"tensorboard {case.name}", work, repr(case), repetitions, by_lowtide=False)

    def _once(self, name: str, case: GraphCase, work: Any) -> Measured:
        return self.runs.once(name, work, repr(case), self._repetitions)

    def damage(self) -> dict[str, Measured]:
        """Give every reader its share of the damaged files."""
        each = -(-self._inputs // len(TARGETS))
        with tempfile.TemporaryDirectory() as folder:
            seeds: dict[str, bytes] = {}

            def work(target: FuzzTarget) -> Measured:
                if not seeds:
                    make_seeds(Path(folder))
                    seeds.update(read_seeds(Path(folder)))
                outcome = fuzz(target, seeds_for(target, seeds), range(each))
                first = outcome.failures[0] if outcome.failures else None
                return {
                    "inputs": outcome.inputs,
                    "accepted": outcome.accepted,
                    "slowest_seconds": outcome.slowest_seconds,
                    "peak_bytes": outcome.peak_bytes,
                    "failures": len(outcome.failures),
                    "first": f"input {first.number}: {first.what.strip().splitlines()[-1][:200]}" if first else None,
                }

            return {
                target.name: self.runs.once(f"fuzz {target.name}", lambda target=target: work(target), each)
                for target in TARGETS
            }


def report(rows: list[GraphRow], bench: Bench, parts: list[str]) -> Iterator[Section]:
    """The sections that have something to say."""
    yield sections.index_section(rows)
    yield sections.page_section(rows)
    yield sections.crowd_section(rows)
    yield sections.screens_section(rows)
    yield sections.weights_section(rows)
    yield sections.peers_section(rows)
    if "fuzz" in parts:
        print("fuzz", flush=True)
        yield sections.fuzz_section(bench.damage())


def main() -> None:
    options = parse()
    chosen = select(options.only, options.quick)
    if not chosen:
        raise SystemExit(f"error: no graph matches {options.only}; see benchmarks/explore/suite.py")
    parts = options.part or [part for part in PARTS if not (options.only and part == "fuzz")]
    bench = Bench(options, parts)
    rows = []
    for place, case in enumerate(chosen, 1):
        print(f"[{place}/{len(chosen)}] {case.name}", flush=True)
        rows.append(bench.measure(case))
    found = [section for section in report(rows, bench, parts) if section.cells]
    print("\n" + "\n".join(bars_markdown(bar for section in found for bar in section.bars)))
    # A part gets a file of its own, so that it never replaces the whole table.
    is_part = options.only or options.part or options.quick
    path = options.results / ("part.md" if is_part else "table.md")
    options.results.mkdir(parents=True, exist_ok=True)
    path.write_text(to_markdown(found, surroundings(), bench.runs.earlier, title="Graphs of any size", unit="MB"))
    print(f"\nwritten: {path}")


if __name__ == "__main__":
    main()
