"""The memory and speed of lowtide's datasets, of pipelines tuned by hand, and of what tutorials show.

python -m benchmarks.feed                  everything, about an hour on two cores
python -m benchmarks.feed --part memory    one part; may be repeated. The table is written once there are all
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.common.cache import setting
from benchmarks.common.processes import MEBIBYTE, run_module
from benchmarks.common.report import Bar, Section, mebibytes, number, to_markdown
from benchmarks.feed.prediction import prediction
from benchmarks.feed.sets import (
    CONSTANT,
    GENERATOR,
    LOWTIDE,
    LOWTIDE_SMALL,
    LOWTIDE_WHOLE,
    SLICES,
    TUNED,
    TUNED_RATIO,
)

RESULTS = Path(__file__).parent / "results"
WHOLE, PART = 24.0, 1.0
BUDGET = "512MiB"
# The tutorials' ways take several times the size of the data: they are stopped above this limit.
LIMIT_BYTES = 14 * 2**30
SHARE_OF_BASE = 0.15
ROUNDS = 3
SPEEDS = {
    "arrays": (TUNED,),
    "images": (LOWTIDE_WHOLE, TUNED, TUNED_RATIO, GENERATOR),
    "table": (LOWTIDE_SMALL, TUNED),
}
BATCHES = {"arrays": 64, "images": 32, "table": 4096}


def start(folder: Path, *arguments: str) -> dict[str, Any]:
    return run_module("benchmarks.feed.child", [*arguments, "--folder", str(folder)], {}, 3600)


def memory(folder: Path) -> Section:
    cells, bars = [], []
    for way, gibibytes in (
        (LOWTIDE, WHOLE), (TUNED, WHOLE), (SLICES, WHOLE), (CONSTANT, WHOLE), (SLICES, PART), (CONSTANT, PART),
    ):  # fmt: skip
        given = ["memory", "--way", way, "--gibibytes", str(gibibytes), "--budget", BUDGET, "--limit", str(LIMIT_BYTES)]
        seen = start(folder, *given)
        print(f"  {way}, {gibibytes:g} GiB: {seen}", flush=True)
        base, highest = seen.get("base_bytes"), seen.get("highest_bytes")
        grown = None if base is None else max(highest - base, 0)
        ended = seen.get("ended") or seen.get("crashed") or seen.get("failed", "no answer")[:60]
        cells.append([way, f"{gibibytes:g}", mebibytes(base), mebibytes(grown), ended, number(seen.get("seconds"), 0)])
        if way == LOWTIDE:
            allowed = 512 * MEBIBYTE + SHARE_OF_BASE * (base or 0)
            words = f"an epoch over {gibibytes:g} GiB grows by at most {BUDGET} and 15% of the process's base"
            holds = grown is not None and grown <= allowed and ended == "trained"
            bars.append(Bar(words, f"{mebibytes(grown)} of {mebibytes(allowed)}", holds))
    columns = ("way", "set, GiB", "base", "grown by", "ended", "seconds")
    return Section("Memory of an epoch", columns, cells, bars)


def speed(folder: Path) -> Section:
    cells: list[list[str]] = []
    ratios: dict[tuple[str, str], float] = {}
    for kind, others in SPEEDS.items():
        rates = _rates(folder, kind, (LOWTIDE, *others))
        for way, (until_last, until_gone) in rates.items():
            ratio = rates[LOWTIDE][0] / until_last if LOWTIDE in rates else None
            if ratio is not None:
                ratios[kind, way] = ratio
            relative = "" if way == LOWTIDE else number(ratio)
            cells.append([kind, way, number(until_last, 0), relative, number(until_gone, 0)])
    tuned = [ratios[kind, TUNED] for kind in SPEEDS if (kind, TUNED) in ratios]
    median = statistics.median(tuned) if len(tuned) == len(SPEEDS) else None
    generator = ratios.get(("images", GENERATOR))
    words = "as fast as a pipeline tuned by hand, in the median over arrays, images and a table"
    bars = [
        Bar(words, number(median), median is not None and median >= 1.0),
        Bar("images: at least 5 times a Python generator", number(generator), generator is not None and generator >= 5),
    ]
    columns = ("set", "way", "samples a second", "lowtide is times as fast", "with the ends of epochs")
    return Section("Samples a second", columns, cells, bars)


def _rates(folder: Path, kind: str, ways: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """The median samples per second until the last batch of an epoch, and until its iterator is deleted."""
    taken: dict[str, list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        # Alternating, so that a slow phase of the machine affects all ways.
        for way in ways:
            given = ["--set", kind, "--way", way, "--batch-size", str(BATCHES[kind]), "--budget", BUDGET]
            seen = start(folder, "speed", *given)
            print(f"  {kind}, {way}: {seen}", flush=True)
            if "samples" in seen:
                rate = seen["samples"] / seen["until_last"], seen["samples"] / seen["until_gone"]
                taken.setdefault(way, []).append(rate)
    medians = {way: [statistics.median(each) for each in zip(*rates, strict=True)] for way, rates in taken.items()}
    return {way: (until_last, until_gone) for way, (until_last, until_gone) in medians.items()}


PARTS = {"memory": memory, "speed": speed, "prediction": prediction}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=list(PARTS), action="append", help="may be repeated; all of them without it")
    parser.add_argument("--folder", type=Path, default=Path("out/feed"), help="where the sets are made")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    for part in options.part or PARTS:
        kept(part).write_text(json.dumps(asdict(PARTS[part](options.folder.resolve()))))
    sections = [load(kept(part)) for part in PARTS if kept(part).exists()]
    path = RESULTS / ("table.md" if len(sections) == len(PARTS) else "part.md")
    path.write_text(to_markdown(sections, setting(), title="Feeding"))
    print(path.read_text())


def kept(part: str) -> Path:
    """The file with the results of a part, so that the parts can be measured separately."""
    return RESULTS / f"part.{part}.json"


def load(path: Path) -> Section:
    content = json.loads(path.read_text())
    return Section(**{**content, "bars": [Bar(**bar) for bar in content["bars"]]})


if __name__ == "__main__":
    main()
