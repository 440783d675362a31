"""Measure configurations in child processes, and cache the results.

python -m benchmarks.accuracy.measure --only resnet50-b8 --record DIR
python -m benchmarks.accuracy.measure --only mlp-b256-adam --limit 300000000
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.accuracy.zoo import Configuration, select
from benchmarks.common.cache import Cache, key_of
from benchmarks.common.processes import AMPLE_BYTES, allocator_environment, run_module

RESULTS = Path(__file__).parent / "results"
TIMEOUT_SECONDS = 900.0
# Seconds of steady steps after which no extra steps are run.
ENOUGH_SECONDS = 8.0


def measure(
    configuration: Configuration,
    mode: str = "fit",
    steps: int = 6,
    record: Path | None = None,
    cache: Cache | None = None,
    fresh: bool = False,
) -> dict[str, Any]:
    """Return the peaks of a few steady steps, in a process that holds nothing else."""
    key = key_of(configuration.name, mode)
    known = cache.find("measured", key) if cache is not None and not fresh and record is None else None
    if known is not None and "failed" not in known:
        return known
    arguments = [configuration.name, "--mode", mode, "--steps", str(steps)]
    arguments += ["--enough-seconds", str(ENOUGH_SECONDS)]
    if record is not None:
        arguments += ["--record", str((record / configuration.name).resolve())]
    environment = allocator_environment(AMPLE_BYTES)
    result = run_module("benchmarks.accuracy.child", arguments, environment, TIMEOUT_SECONDS)
    result = {"name": configuration.name, "mode": mode, **summarise(result)}
    if record is not None and (record / configuration.name).exists():
        (record / configuration.name / "result.json").write_text(json.dumps(result, indent=1))
    if cache is not None:
        cache.add("measured", key, result)
    return result


def summarise(result: dict[str, Any]) -> dict[str, Any]:
    """Add the median and the spread of the peaks; a failure is returned unchanged."""
    peaks = result.get("peaks")
    if not peaks:
        return result
    median = int(statistics.median(peaks))
    return {
        **result,
        "peak_bytes": median,
        "lowest_bytes": min(peaks),
        "highest_bytes": max(peaks),
        "spread": (max(peaks) - min(peaks)) / median,
    }


def run_within(
    configuration: Configuration,
    limit_bytes: int,
    mode: str = "fit",
    steps: int = 5,
    cache: Cache | None = None,
    fresh: bool = False,
) -> dict[str, Any]:
    """Run several steps under a hard limit of the allocator; a crash counts as running out."""
    key = key_of(configuration.name, mode, limit_bytes)
    known = cache.find("limited", key) if cache is not None and not fresh else None
    if known is not None and "failed" not in known:
        return known
    arguments = [configuration.name, "--mode", mode, "--steps", str(steps)]
    environment = allocator_environment(limit_bytes)
    result = run_module("benchmarks.accuracy.child", arguments, environment, TIMEOUT_SECONDS)
    ran_out = None if "failed" in result else bool(result.get("ran_out")) or "crashed" in result
    result = {"name": configuration.name, "limit_bytes": limit_bytes, **result, "ran_out": ran_out}
    if cache is not None:
        cache.add("limited", key, result)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="part of a name; may be repeated")
    parser.add_argument("--quick", action="store_true", help="a few configurations only")
    parser.add_argument("--mode", choices=("fit", "direct", "both"), default="fit")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--record", type=Path, help="folder for the executed graph and the profile")
    parser.add_argument("--limit", type=int, help="bytes of a hard limit to run under instead")
    parser.add_argument("--fresh", action="store_true", help="measure again what is in the cache")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    cache = Cache(options.results)
    modes = ("fit", "direct") if options.mode == "both" else (options.mode,)
    for mode in modes:
        for configuration in select(tuple(options.only), options.quick):
            if options.limit is not None:
                result = run_within(configuration, options.limit, mode, options.steps, cache, options.fresh)
                print(configuration.name, json.dumps(result), flush=True)
                continue
            result = measure(configuration, mode, options.steps, options.record, cache, options.fresh)
            print(describe(result), flush=True)


def describe(result: dict[str, Any]) -> str:
    """Return one line for the terminal."""
    title = f"{result['name']:44s} {result['mode']:6s}"
    if "peak_bytes" not in result:
        return f"{title} {result.get('failed') or result.get('crashed') or result.get('error')}"
    return (
        f"{title} {result['peak_bytes'] / 2**20:9.1f} MiB  spread {100 * result['spread']:5.1f}%"
        f"  {max(result['seconds']):6.2f} s/step  {result['process_seconds']:6.1f} s"
    )


if __name__ == "__main__":
    main()
