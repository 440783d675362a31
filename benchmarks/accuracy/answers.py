"""The processor seconds of an answer, as a ratio to TensorFlow's own trace and Grappler of the same step.

python -m benchmarks.accuracy.answers
python -m benchmarks.accuracy.answers --only MLP EfficientNetB0
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy.measure import RESULTS
from benchmarks.common.cache import setting
from benchmarks.common.processes import ROOT, run_module

# The highest ratio of each answer, and the most seconds of one from the cache beside the start of TensorFlow.
BARS = {"prediction": 1.2, "largest batch": 1.5, "plan": 3.0}
MOST_CACHED_SECONDS = 2.0
# The budget of a plan: what is there before the step, and this share of the rest of its safe bound.
PLANNED_SHARE = 0.6
LARGEST_BUDGET = "4GiB"


@dataclass(frozen=True)
class Asked:
    """A program, by the name that the command line takes, and its batch size."""

    name: str
    target: str
    batch_size: int


PROGRAMS = (
    Asked("ResNet50", "keras:ResNet50", 8),
    Asked("EfficientNetB0", "keras:EfficientNetB0", 8),
    Asked("InceptionV3", "keras:InceptionV3", 8),
    Asked("MLP", "benchmarks.accuracy.answers:mlp", 256),
    Asked("transformer", "benchmarks.accuracy.answers:transformer", 16),
)


def mlp() -> Any:
    """Return a compiled model of eight hidden layers."""
    import keras

    hidden = [keras.layers.Dense(1024, activation="relu") for _ in range(8)]
    model = keras.Sequential([keras.Input((512,)), *hidden, keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


def transformer() -> Any:
    """Return a compiled encoder of six blocks over sequences of 128 tokens."""
    import keras
    from keras import layers

    inputs = keras.Input((128,), dtype="int32")
    hidden = layers.Embedding(8000, 256)(inputs)
    for _ in range(6):
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.MultiHeadAttention(8, 32, dropout=0.1)(normal, normal)
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.Dense(256)(layers.Dense(1024, activation="gelu")(normal))
    model = keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling1D()(hidden)))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


# -- in a child process: one answer about one program --------------------------------------------


def time_tensorflow(asked: Asked) -> float:
    """Return the processor seconds of TensorFlow's trace and Grappler; the optimizer is built before."""
    from lowtide.tf.trace import keras_models
    from lowtide.tf.trace.specs import with_batch
    from lowtide.tf.trace.target import resolve_step
    from lowtide.tf.trace.trace import executed_graphs

    model = resolve_step(asked.target, asked.batch_size).program
    specs = with_batch(keras_models.candidate_specs(model, ())[0], asked.batch_size)
    keras_models.prepare(model, specs)
    started = time.process_time()
    executed_graphs(keras_models.train_function(model).get_concrete_function(*specs))
    return time.process_time() - started


def time_prediction(asked: Asked) -> float:
    import lowtide as lt
    from lowtide.tf.trace.target import resolve_step

    model = resolve_step(asked.target, asked.batch_size).program
    started = time.process_time()
    lt.predict(model, batch_size=asked.batch_size)
    return time.process_time() - started


def time_largest_batch(asked: Asked) -> float:
    import lowtide as lt
    from lowtide.tf.trace.target import resolve_step

    model = resolve_step(asked.target, asked.batch_size).program
    started = time.process_time()
    lt.predict(model, batch_size=asked.batch_size)
    lt.max_batch_size(model, budget=LARGEST_BUDGET)
    return time.process_time() - started


def time_plan(asked: Asked) -> float:
    """Return the processor seconds of a prediction and a plan, with what the plan would cost at other budgets."""
    import lowtide as lt
    from lowtide.planning.plan import NoPlanError
    from lowtide.tf.trace.target import resolve_step

    model = resolve_step(asked.target, asked.batch_size).program
    started = time.process_time()
    tide = lt.predict(model, batch_size=asked.batch_size)
    held = int(tide.curve.bytes_in_use[0])
    budget = held + int(PLANNED_SHARE * (tide.safe_bytes - held))
    try:
        answer: Any = lt.plan(model, batch_size=asked.batch_size, budget=budget)
    except NoPlanError as error:
        answer = error
    len(answer.frontier)
    return time.process_time() - started


TIMED: dict[str, Callable[[Asked], float]] = {
    "TensorFlow": time_tensorflow,
    "prediction": time_prediction,
    "largest batch": time_largest_batch,
    "plan": time_plan,
}


# -- in this process -----------------------------------------------------------------------------


def command_seconds(arguments: list[str], cache: str) -> float:
    """Return the processor seconds of a Python process and its children."""
    environment = {
        **os.environ,
        "LOWTIDE_CACHE": cache,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cached_seconds(asked: Asked) -> float:
    """Return the processor seconds of the second of two equal commands, without those of the start of TensorFlow."""
    command = ["-m", "lowtide", "predict", asked.target, "--batch-size", str(asked.batch_size), "--json"]
    with tempfile.TemporaryDirectory() as cache:
        start = command_seconds(["-c", "import tensorflow, keras"], cache)
        command_seconds(command, cache)
        again = command_seconds(command, cache)
    return max(0.0, again - start)


def measure(asked: Asked) -> dict[str, Any]:
    """Return the seconds of each answer, each in a process of its own."""
    row: dict[str, Any] = {"program": asked.name, "batch_size": asked.batch_size}
    for name in TIMED:
        result = run_module("benchmarks.accuracy.answers", ["--child", name, asked.name], {}, 3600.0)
        row[name] = result.get("seconds")
    row["from the cache"] = cached_seconds(asked)
    return row


def to_markdown(rows: list[dict[str, Any]]) -> str:
    """Return one line per program: seconds of TensorFlow, ratios, and seconds of an answer from the cache."""
    header = ["program", "batch", "TensorFlow, s", *BARS, "from the cache, s"]
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    for row in rows:
        base = row["TensorFlow"]
        ratios = [f"{row[name] / base:.2f}" if base and row[name] else "no answer" for name in BARS]
        shown = [row["program"], str(row["batch_size"]), f"{base or 0:.1f}", *ratios, f"{row['from the cache']:.1f}"]
        lines.append("| " + " | ".join(shown) + " |")
    lines.append("| bar | | | " + " | ".join(f"{bar}" for bar in BARS.values()) + f" | {MOST_CACHED_SECONDS} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[asked.name for asked in PROGRAMS])
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        answer, name = options.child
        asked = next(each for each in PROGRAMS if each.name == name)
        options.output.write_text(json.dumps({"seconds": TIMED[answer](asked)}))
        return
    rows = []
    for asked in PROGRAMS:
        if asked.name in options.only:
            rows.append(measure(asked))
            print(to_markdown(rows).splitlines()[-2], flush=True)
    report = to_markdown(rows)
    print(report)
    if len(rows) == len(PROGRAMS):
        text = f"# Processor seconds of an answer, as a ratio to TensorFlow's trace and Grappler\n\n{report}\n"
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "answers.md").write_text(text)
        (RESULTS / "answers.json").write_text(json.dumps({"setting": setting(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
