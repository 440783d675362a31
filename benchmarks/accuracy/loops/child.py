"""The process of one program: runs its steps and writes their peaks, or predicts them without running a step."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.accuracy.loops.programs import build


def run_steps(name: str, count: int) -> dict[str, Any]:
    """Return the allocator's peak in each step."""
    from benchmarks.accuracy.batches import random_batch
    from benchmarks.accuracy.child import run_steps

    step, *specs = build(name)
    batch = random_batch(tuple(specs))
    peaks, before, seconds = run_steps(lambda: step(*batch), count)
    return {"peaks": peaks, "before": before, "seconds": [round(each, 4) for each in seconds]}


def predict(name: str) -> dict[str, Any]:
    """Return the predicted peaks and the bound."""
    import lowtide as lt

    tide = lt.predict(*build(name))
    return {"peak_bytes": tide.peak_bytes, "highest_bytes": tide.highest_bytes, "safe_bytes": tide.safe_bytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--steps", type=int, help="run this many steps; predict without it")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    result = predict(options.name) if options.steps is None else run_steps(options.name, options.steps)
    options.output.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
