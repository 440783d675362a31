"""The process that is measured: it builds one configuration, trains it a few steps and writes its peaks.

Started by `benchmarks.accuracy.measure` with the allocator's settings in its environment,
because TensorFlow reads them once, when it is imported.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from benchmarks.accuracy.architectures import build
from benchmarks.accuracy.batches import count_bytes, data_specs, random_batch
from benchmarks.accuracy.zoo import find

DEVICE = "CPU:0"


def prepare(program: Any, batch_size: int, mode: str) -> tuple[Callable[[], Any], Any]:
    """Return a function without arguments that runs one step, and the batch that it runs on."""
    if isinstance(program, tuple):
        step, *specs = program
        batch = random_batch(tuple(specs))
        return (lambda: step(*batch)), batch
    model = program
    batch = random_batch(data_specs(model, batch_size))
    if mode == "direct":
        step = tf.function(model.train_step, jit_compile=model.jit_compile)
        return (lambda: step(batch)), batch
    # A dataset of one element returns the same buffer each time, so the batch counts once.
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    model.make_train_function()
    return (lambda: model.train_function(iterator)), batch


# Quick steps are repeated up to this many times, because their peaks differ.
MAX_STEPS = 25


def run_steps(
    step: Callable[[], Any], count: int, enough_seconds: float = 0.0
) -> tuple[list[int], list[int], list[float]]:
    """Return the allocator's peak in each step, the bytes in use before it, and its seconds.

    Runs at least `count` steps, and more, up to `MAX_STEPS`, until `enough_seconds` have passed.
    """
    peaks: list[int] = []
    before: list[int] = []
    seconds: list[float] = []
    while len(peaks) < count or (len(peaks) < MAX_STEPS and sum(seconds) < enough_seconds):
        tf.config.experimental.reset_memory_stats(DEVICE)
        before.append(tf.config.experimental.get_memory_info(DEVICE)["current"])
        started = time.perf_counter()
        # The outputs are freed before the next step starts, as in a training loop.
        step()
        seconds.append(time.perf_counter() - started)
        peaks.append(tf.config.experimental.get_memory_info(DEVICE)["peak"])
    return peaks, before, seconds


def record_graph(step: Callable[[], Any], folder: Path) -> int:
    """Run the first step and save the executed graph; return its number of nodes."""
    context.context().enable_run_metadata()
    step()
    graphs = context.context().export_run_metadata().function_graphs
    context.context().disable_run_metadata()
    # Functions called by XLA and by iterators are recorded too; the step is the largest.
    largest = max(graphs, key=lambda entry: sum(len(part.node) for part in entry.partition_graphs))
    partitions = sorted(largest.partition_graphs, key=lambda part: -len(part.node))
    for index, partition in enumerate(partitions):
        name = "graph.pb" if index == 0 else f"graph{index}.pb"
        (folder / name).write_bytes(partition.SerializeToString())
    return len(partitions[0].node)


def record_trace(step: Callable[[], Any], folder: Path) -> int:
    """Save every allocation of one steady step as `step.xplane.pb`; return that step's peak."""
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
    tf.profiler.experimental.start(str(folder), options)
    peaks, _, _ = run_steps(step, 1)
    tf.profiler.experimental.stop()
    for trace in folder.glob("plugins/profile/*/*.xplane.pb"):
        trace.replace(folder / "step.xplane.pb")
    shutil.rmtree(folder / "plugins")
    return peaks[0]


# During the first steps the allocator is not steady yet: variables still move from where they were created.
WARM_UP_STEPS, MIN_WARM_UP_STEPS, WARM_UP_SECONDS = 10, 2, 12.0


def measure(name: str, mode: str, steps: int, enough_seconds: float, record: Path | None) -> dict[str, Any]:
    configuration = find(name)
    started = time.perf_counter()
    program = build(configuration)
    step, batch = prepare(program, configuration.batch_size, mode)
    built = time.perf_counter()
    result: dict[str, Any] = {"batch_bytes": count_bytes(batch)}
    if record is not None:
        record.mkdir(parents=True, exist_ok=True)
        result["executed_nodes"] = record_graph(step, record)
    warm_up, _, seconds = run_steps(step, MIN_WARM_UP_STEPS)
    while len(warm_up) < WARM_UP_STEPS and enough_seconds and sum(seconds[1:]) < WARM_UP_SECONDS:
        peaks, _, lasted = run_steps(step, 1)
        warm_up, seconds = warm_up + peaks, seconds + lasted
    first_steps = time.perf_counter()
    peaks, before, seconds = run_steps(step, steps, enough_seconds)
    if record is not None:
        result["recorded_peak"] = record_trace(step, record)
    return {
        **result,
        "warm_up": warm_up,
        "peaks": peaks,
        "before": before,
        "seconds": [round(value, 4) for value in seconds],
        "build_seconds": round(built - started, 2),
        "first_seconds": round(first_steps - built, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--mode", choices=("fit", "direct"), default="fit")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--enough-seconds", type=float, default=0.0)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    try:
        result = measure(options.name, options.mode, options.steps, options.enough_seconds, options.record)
    except tf.errors.ResourceExhaustedError as error:
        # Keras puts the user's stack first; the line of the allocator says what did not fit.
        lines = [line for line in error.message.splitlines() if "OOM" in line] or [error.message]
        result = {"ran_out": True, "error": lines[0].strip()[:300]}
    options.output.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
