"""The process in which steps are predicted and then run, on the real allocator: `python step_child.py OUT [NAME ...]`.

TensorFlow is imported once; every case then runs in a fork of its own, made before TensorFlow's runtime starts, so
that each finds an unused allocator. What a case saw goes to OUT as one line of JSON. Some cases run
once more, in an allocator whose hard limit is the safe bound that was predicted.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import step_cases
import tensorflow as tf

import lowtide as lt

DEVICE = "CPU:0"
WARM_UP_STEPS, STEADY_STEPS = 3, 7
LIMITED = ("mlp", "conv", "embedding", "gan", "attention", "while_loop")


def in_use(key: str = "current") -> int:
    return tf.config.experimental.get_memory_info(DEVICE)[key]


def contents(case: step_cases.StepCase) -> list[np.ndarray]:
    """All that a step would change."""
    if isinstance(case.target, keras.Model):
        return [variable.numpy() for variable in (*case.target.variables, *case.target.optimizer.variables)]
    return [variable.numpy() for variable in case.variables]


def predict(case: step_cases.StepCase) -> dict[str, Any]:
    """The prediction, what it changed, and what it took from the allocator."""
    if isinstance(case.target, keras.Model):
        case.target.optimizer.build(case.target.trainable_variables)
    before = contents(case)
    tf.config.experimental.reset_memory_stats(DEVICE)
    held = in_use()
    if isinstance(case.target, keras.Model):
        tide = lt.predict(case.target, batch_size=case.batch_size)
    else:
        tide = lt.predict(case.target, *case.specs())
    after = contents(case)
    return {
        "taken_bytes": in_use("peak") - held,
        "unchanged": all(np.array_equal(old, new) for old, new in zip(before, after, strict=True)),
        "variables": len(before),
        "predicted_bytes": tide.peak_bytes,
        "safe_bytes": tide.safe_bytes,
        "predicted_before": int(tide.curve.bytes_in_use[0]),
        "batch_size": tide.batch_size,
        "unmodelled": [row.op for row in tide.unmodelled],
        "notes": list(tide.notes),
    }


def measure(case: step_cases.StepCase) -> dict[str, list[int]]:
    """The allocator's peaks of some steady steps, and what it held before each."""
    batch = case.batch()
    if isinstance(case.target, keras.Model):
        # One element, again and again: the batch counts once.
        iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
        case.target.make_train_function()

        def step() -> None:
            case.target.train_function(iterator)
    else:

        def step() -> None:
            case.target(*batch)

    peaks, before = [], []
    for _ in range(WARM_UP_STEPS + STEADY_STEPS):
        tf.config.experimental.reset_memory_stats(DEVICE)
        before.append(in_use())
        step()
        peaks.append(in_use("peak"))
    return {"peaks": peaks[WARM_UP_STEPS:], "before": before[WARM_UP_STEPS:]}


def huge_batch() -> dict[str, Any]:
    """What predictions for a small and for a huge batch take from the allocator of the process that makes them."""
    case = step_cases.mlp()
    taken = {}
    for size in (4, 400_000):
        tf.config.experimental.reset_memory_stats(DEVICE)
        held = in_use()
        tide = lt.predict(case.target, batch_size=size)
        taken[size] = (in_use("peak") - held, tide.peak_bytes)
    return {"small": taken[4], "huge": taken[400_000], "batch_bytes": 400_000 * 256 * 4}


def run(name: str) -> dict[str, Any]:
    if name == "huge_batch":
        return huge_batch()
    case = step_cases.CASES[name]()
    return predict(case) | measure(case)


def run_limited(name: str, safe_bytes: int) -> dict[str, Any]:
    """Run a case with a hard limit a quarter above what was called safe; the allocator takes whole mebibytes.

    How often the bound itself runs out is a frequency, and the accuracy benchmark counts it; here a bound that is off
    by more than the spread of a busy machine must fail.
    """
    mebibytes = -(-safe_bytes * 5 // 4 // 2**20)
    os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = str(mebibytes)
    return {"limit_bytes": mebibytes * 2**20, "limited_peaks": measure(step_cases.CASES[name]())["peaks"]}


def in_fork(out: Path, name: str, function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a function found in a process of its own, also written to OUT."""
    child = os.fork()
    if not child:
        try:
            result = function(name, *arguments)
        except BaseException:
            result = {"failed": traceback.format_exc()}
        with out.open("a") as file:
            file.write(json.dumps({"name": name, **result}) + "\n")
        os._exit(0)
    os.waitpid(child, 0)
    last = json.loads(out.read_text().splitlines()[-1]) if out.exists() else {"name": None}
    # A process that crashed wrote nothing.
    return last if last["name"] == name else {}


def main(out: Path, names: list[str]) -> None:
    for name in names or [*step_cases.CASES, "huge_batch"]:
        result = in_fork(out, name, run)
        if name in LIMITED and "safe_bytes" in result:
            in_fork(out, name, run_limited, result["safe_bytes"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
