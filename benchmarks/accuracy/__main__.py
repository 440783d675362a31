"""Compares predicted peaks with measured ones over the whole zoo and writes the table.

python -m benchmarks.accuracy                    everything that is not in the cache
python -m benchmarks.accuracy --only resnet      the configurations whose name contains this
python -m benchmarks.accuracy --held-out         programs that nothing was tuned on
python -m benchmarks.accuracy --cached           only what is in the cache
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.accuracy.measure import RESULTS, describe, measure, run_within
from benchmarks.accuracy.table import Row, summarise, summary_markdown, to_json, to_markdown
from benchmarks.accuracy.zoo import Configuration, select
from benchmarks.common.cache import Cache, key_of, setting
from benchmarks.common.processes import ROOT, run_module

PREDICT_SECONDS = 600.0


def source_digest() -> str:
    """Return a digest of lowtide's source: predictions are cached per version of the code."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src" / "lowtide").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def estimate(configuration: Configuration, method: str, cache: Cache, fresh: bool) -> dict[str, Any]:
    """Return lowtide's prediction or Grappler's estimate, from a child process or from the cache."""
    key = key_of(configuration.name, source_digest() if method == "lowtide" else "")
    known = None if fresh else cache.find(method, key)
    if known is not None and "failed" not in known:
        return known
    arguments = [configuration.name, "--with", method]
    result = run_module("benchmarks.accuracy.estimate", arguments, {}, PREDICT_SECONDS)
    cache.add(method, key, result)
    return result


def make_row(
    configuration: Configuration,
    measured: dict[str, Any],
    predicted: dict[str, Any],
    limited: dict[str, Any],
    grappler: dict[str, Any],
) -> Row:
    """Return one row of the table, with the reason for each missing result."""
    notes = [
        f"{label}: {result[reason]}"
        for label, result in (("measuring", measured), ("predicting", predicted), ("limit", limited))
        for reason in ("failed", "unavailable", "crashed", "error")
        if reason in result and result.get("ran_out") is None
    ]
    return Row(
        name=configuration.name,
        architecture=configuration.architecture,
        measured_bytes=measured.get("peak_bytes"),
        lowest_bytes=measured.get("lowest_bytes"),
        highest_bytes=measured.get("highest_bytes"),
        predicted_bytes=predicted.get("peak_bytes"),
        safe_bytes=predicted.get("safe_bytes"),
        method=predicted.get("method"),
        ran_out=limited.get("ran_out"),
        grappler_bytes=grappler.get("peak_bytes"),
        note="; ".join(notes) or None,
    )


def measure_all(chosen: list[Configuration], cache: Cache, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Measure in one process at a time, so that configurations do not disturb each other."""
    known = cache.read("measured")
    results = {}
    for index, configuration in enumerate(chosen, 1):
        if options.cached:
            results[configuration.name] = known.get(key_of(configuration.name, options.mode), {})
            continue
        results[configuration.name] = measure(configuration, options.mode, cache=cache, fresh=options.fresh)
        print(f"[measure {index}/{len(chosen)}] {describe(results[configuration.name])}", flush=True)
    return results


def estimate_all(
    chosen: list[Configuration], method: str, cache: Cache, options: argparse.Namespace
) -> Iterator[tuple[Configuration, dict[str, Any]]]:
    """Estimate with several processes at once, since estimates do not depend on other processes."""
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(estimate, entry, method, cache, options.fresh_estimates) for entry in chosen]
        for index, (configuration, job) in enumerate(zip(chosen, jobs, strict=True), 1):
            result = job.result()
            size = result.get("peak_bytes")
            reason = result.get("failed") or result.get("unavailable") or result.get("crashed")
            shown = reason if size is None else f"{size / 2**20:9.1f} MiB"
            print(f"[{method} {index}/{len(chosen)}] {configuration.name:44s} {shown}", flush=True)
            yield configuration, result


def limit_all(
    chosen: list[Configuration], predicted: dict[str, Any], cache: Cache, options: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Run each configuration under a hard limit of its `safe_bytes`."""
    bounds = {entry.name: predicted[entry.name].get("safe_bytes") for entry in chosen}
    bounded = [entry for entry in chosen if bounds[entry.name] is not None]
    results = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = [
            pool.submit(run_within, entry, bounds[entry.name], options.mode, cache=cache, fresh=options.fresh)
            for entry in bounded
        ]
        for index, (configuration, job) in enumerate(zip(bounded, jobs, strict=True), 1):
            result = results[configuration.name] = job.result()
            outcome = {None: result.get("failed"), True: "RAN OUT", False: "ran"}[result["ran_out"]]
            size = f"{bounds[configuration.name] / 2**20:9.1f} MiB"
            print(f"[limit {index}/{len(bounded)}] {configuration.name:44s} {size} {outcome}", flush=True)
    return results


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="part of a name; may be repeated")
    parser.add_argument("--quick", action="store_true", help="nine configurations")
    parser.add_argument("--held-out", action="store_true", help="the programs that nothing was tuned on")
    parser.add_argument("--mode", choices=("fit", "direct"), default="fit", help="how a Keras step is run")
    parser.add_argument("--cached", action="store_true", help="measure nothing that is not in the cache")
    parser.add_argument("--fresh", action="store_true", help="measure again what is in the cache")
    parser.add_argument("--fresh-estimates", action="store_true", help="predict again what is in the cache")
    parser.add_argument("--no-limit", action="store_true", help="do not run under `safe_bytes`")
    parser.add_argument("--no-grappler", action="store_true", help="leave out TensorFlow's estimator")
    parser.add_argument("--assemble", action="store_true", help="run nothing: write the table from the cache")
    parser.add_argument("--jobs", type=int, default=1, help="predictions and limited runs at once")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the cache and the table")
    return parser.parse_args()


def find_all(kind: str, chosen: list[Configuration], cache: Cache) -> dict[str, dict[str, Any]]:
    """Return the newest cache entry of each configuration, of whatever version of the code."""
    newest: dict[str, dict[str, Any]] = {}
    for key, result in cache.read(kind).items():
        newest[key.partition(" | ")[0]] = result
    return {entry.name: newest.get(entry.name, {}) for entry in chosen}


def collect(chosen: list[Configuration], cache: Cache, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return measurements, predictions, limited runs and Grappler's estimates, each by name."""
    if options.assemble:
        return [find_all(kind, chosen, cache) for kind in ("measured", "lowtide", "limited", "grappler")]
    measured = measure_all(chosen, cache, options)
    predicted = {entry.name: result for entry, result in estimate_all(chosen, "lowtide", cache, options)}
    grappler: dict[str, dict[str, Any]] = {}
    if not options.no_grappler:
        grappler = {entry.name: result for entry, result in estimate_all(chosen, "grappler", cache, options)}
    limited = {} if options.no_limit else limit_all(chosen, predicted, cache, options)
    return [measured, predicted, limited, grappler]


def main() -> None:
    options = parse()
    cache = Cache(options.results)
    chosen = select(tuple(options.only), options.quick, options.held_out)
    if not chosen:
        raise SystemExit(f"error: no configuration matches {options.only}; see benchmarks/accuracy/zoo.py")
    parts = collect(chosen, cache, options)
    rows = [make_row(entry, *(part.get(entry.name, {}) for part in parts)) for entry in chosen]
    print("\n" + summary_markdown(summarise(rows)))
    # Part of the zoo is written to other files, so that it never replaces the whole table.
    whole = "held_out" if options.held_out else "table"
    name = whole if not options.only and not options.quick else "part"
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / f"{name}.md").write_text(to_markdown(rows, setting()))
    (options.results / f"{name}.json").write_text(to_json(rows, setting()))
    print(f"\nwritten: {options.results / name}.md and .json")


if __name__ == "__main__":
    main()
