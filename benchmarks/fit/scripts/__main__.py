"""Twenty whole scripts under hard limits: does any planned training run out of memory?

python -m benchmarks.fit.scripts                     all scripts that can run here, three budgets each
python -m benchmarks.fit.scripts --only gpt2         part of a name; may be repeated
python -m benchmarks.fit.scripts --jobs 2            two processes at once: nothing is timed

Half of the scripts use keras_hub. On a machine without a GPU it is installed without its dependencies, which contain a
second TensorFlow: pip install --no-deps keras-hub kagglehub kagglesdk tqdm regex tokenizers
"""

from __future__ import annotations

import argparse
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.cache import CachedRuns, Measured, add_cache_options, digest, setting
from benchmarks.common.processes import AMPLE_BYTES, ROOT, allocator_environment, run_module
from benchmarks.common.report import Bar, Section, bars_markdown, mebibytes, percent, to_markdown
from benchmarks.fit.promise import outcome
from benchmarks.fit.runs import PLANNING_ROOMS, budget_for, describe_result, ran_out
from benchmarks.fit.suite import PROMISED_SHARES, STEPS

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
HUB = ("gpt2", "bert", "t5_adafactor", "albert", "roberta", "deberta", "opt", "llama", "vit", "resnet18")
OTHERS = (
    "xception_like", "wavenet", "segmentation", "recommender", "contrastive", "graph_network", "mixer_bfloat16",
    "denoising_loop", "translation_loop", "descent_loop",
)  # fmt: skip
TIMEOUT_SECONDS = 1800.0


class ScriptRuns(CachedRuns):
    """Runs of whole scripts in processes with a limit."""

    def __init__(self, options: argparse.Namespace) -> None:
        rooms = [ROOT / "src" / "lowtide" / room for room in PLANNING_ROOMS]
        programs = (HERE / "programs.py", HERE / "child.py")
        super().__init__(options, digest(*programs), digest(*programs, *rooms))

    def describe(self, result: Measured) -> str:
        return describe_result(result)

    def train(self, name: str, budget_bytes: int | None = None) -> Measured:
        """Train plainly without a limit that is felt, or with a plan under a limit of exactly its budget."""
        arguments = [name] + ([] if budget_bytes is None else ["--budget", str(budget_bytes)])
        environment = allocator_environment(budget_bytes or AMPLE_BYTES)
        return self.once(
            f"script {name} {mebibytes(budget_bytes)}",
            lambda: run_module("benchmarks.fit.scripts.child", arguments, environment, TIMEOUT_SECONDS),
            *arguments,
            by_lowtide=budget_bytes is not None,
        )


@dataclass(frozen=True)
class ScriptRow:
    """One script under one budget; `plain` is its run without a limit."""

    name: str
    share: float
    budget_bytes: int | None
    plain: Measured
    planned: Measured

    @property
    def ended(self) -> str:
        if "failed" in self.plain:
            return "plain run fails"
        if self.planned.get("peaks") and "refused" in self.planned:
            return "refused after the first step"
        return outcome(self.planned)

    @property
    def is_kept(self) -> bool:
        """Whether the script trained to its end, or was refused before its first step."""
        peaks = self.planned.get("peaks", ())
        return ("refused" in self.planned and not peaks) or (ran_out(self.planned) is False and len(peaks) == STEPS)


def measure(name: str, runs: ScriptRuns) -> list[ScriptRow]:
    plain = runs.train(name)
    rows = []
    for share in PROMISED_SHARES:
        budget = budget_for(plain, share) if "peaks" in plain else None
        planned = {} if budget is None else runs.train(name, budget)
        rows.append(ScriptRow(name, share, budget, plain, planned))
    return rows


def report(rows: list[ScriptRow]) -> Section:
    columns = ("script", "plain takes", "budget", "of its activations", "promised", "time, estimated", "ended")
    cells = [
        [
            row.name,
            mebibytes(max(row.plain["peaks"])) if "peaks" in row.plain else "n/a",
            mebibytes(row.budget_bytes),
            percent(row.share),
            mebibytes(row.planned.get("promised_bytes")),
            f"+{row.planned['slowdown']:.0%}" if "slowdown" in row.planned else "n/a",
            row.ended,
        ]
        for row in rows
    ]
    scripts = len({row.name for row in rows})
    kept, trained = sum(row.is_kept for row in rows), sum(ran_out(row.planned) is False for row in rows)
    out = sum(ran_out(row.planned) is True for row in rows)
    bars = [
        Bar(
            f"{scripts} new scripts under hard limits train {STEPS} steps, or are refused before the first",
            f"{kept} of {len(rows)}: {trained} train, {out} run out",
            kept == len(rows),
        )
    ]
    notes = [
        f"{row.name}, {percent(row.share)}: {row.planned[reason]}"
        for row in rows
        for reason in ("refused", "failed", "error")
        if reason in row.planned
    ]
    return Section("Whole scripts", columns, cells, bars, notes)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="part of a script's name; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    add_cache_options(parser, RESULTS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    names = (*HUB, *OTHERS)
    if importlib.util.find_spec("keras_hub") is None and not options.assemble:
        print("keras_hub is not installed: its scripts are left out (see --help)")
        names = OTHERS
    chosen = [name for name in names if not options.only or any(part in name for part in options.only)]
    runs = ScriptRuns(options)
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = [row for found in pool.map(lambda name: measure(name, runs), chosen) for row in found]
    section = report(rows)
    print("\n" + "\n".join(bars_markdown(section.bars)))
    path = options.results / ("part.scripts.md" if options.only else "scripts.md")
    path.write_text(to_markdown([section], setting(), runs.earlier))
    print(f"\nwritten: {path}")


if __name__ == "__main__":
    main()
