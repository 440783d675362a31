"""Running a program that runs out of memory: plain, explained by lowtide, and with the batch that should fit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from benchmarks.measure.cases import LIMIT_BYTES, Exhaustion
from benchmarks.measure.message import read_message
from benchmarks.measure.processes import Failed, run_plain, run_recorded


def exhaust_plain(case: Exhaustion) -> dict[str, Any]:
    """How the process ends by itself, and what TensorFlow says."""
    ended = run_plain(case.program, list(case.arguments), LIMIT_BYTES, case.onednn)
    if ended.code == 0:
        raise Failed("it did not run out of memory")
    return {
        "way": ended.way,
        "seconds": ended.seconds,
        "lines": len(ended.stderr.splitlines()),
        **asdict(read_message(ended.stderr, case.program)),
    }


def exhaust_recorded(case: Exhaustion) -> dict[str, Any]:
    """How the process ends under `lowtide run`, and the explanations it gives."""
    ended, said = run_recorded(case.program, list(case.arguments), LIMIT_BYTES, case.onednn)
    shortages = said["shortages"]
    if not shortages:
        raise Failed(f"no explanation: {said['run']['ending']}; {said['run']['problem']}")
    last = shortages[-1]
    held = sum(last["by_kind"].values())
    return {
        "way": ended.way,
        "seconds": ended.seconds,
        "causes": [shortage["cause"]["name"] for shortage in shortages],
        "sentence": last["cause"]["sentence"],
        "advice": list(last["cause"]["advice"]),
        "line": last["request"]["source"],
        "layers": [share["layer"] for share in last["by_layer"] if share["layer"] is not None],
        "known_kind": (held - last["by_kind"].get("unknown", 0)) / held if held else None,
        "batch_size": last["batch_size"],
        "largest_batch_size": last["largest_batch_size"],
    }


def try_batch(case: Exhaustion, batch_size: int) -> dict[str, Any]:
    """Whether the program itself ends well with this batch under the same limit."""
    ended = run_plain(case.program, [str(batch_size)], LIMIT_BYTES, case.onednn)
    return {"batch_size": batch_size, "way": ended.way, "fits": ended.code == 0}
