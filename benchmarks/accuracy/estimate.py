"""The process that predicts one configuration: with lowtide, or with TensorFlow's own estimator."""

from __future__ import annotations

import argparse
import inspect
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.accuracy.zoo import Configuration, find


def predict_with_lowtide(configuration: Configuration) -> dict[str, Any]:
    """Return lowtide's prediction, which runs no step, and the seconds it took."""
    try:
        from lowtide.tf.trace.predict import predict
    except ModuleNotFoundError as error:
        return {"unavailable": str(error)}
    from benchmarks.accuracy.architectures import build

    program = build(configuration)
    timings: dict[str, float] = {}
    extra = {"timings": timings} if "timings" in inspect.signature(predict).parameters else {}
    started = time.perf_counter()
    if isinstance(program, tuple):
        tide = predict(*program, **extra)
    else:
        tide = predict(program, batch_size=configuration.batch_size, **extra)
    return {
        "peak_bytes": int(tide.peak_bytes),
        "safe_bytes": int(tide.safe_bytes),
        "method": tide.method,
        "unmodelled": sorted(entry.op for entry in tide.unmodelled),
        "seconds": round(time.perf_counter() - started, 3),
        "stages": {stage: round(value, 3) for stage, value in timings.items()},
    }


def estimate_with_grappler(configuration: Configuration) -> dict[str, Any]:
    """Return Grappler's `DeterminePeakMemoryUsage` of the traced step, the largest over its devices."""
    import tensorflow as tf
    from tensorflow.python.grappler import cluster, item

    from benchmarks.accuracy.architectures import build
    from benchmarks.accuracy.batches import data_specs

    program = build(configuration)
    if isinstance(program, tuple):
        function, *specs = program
    else:
        function, specs = tf.function(program.train_step), [data_specs(program, configuration.batch_size)]
    graph = function.get_concrete_function(*specs).graph
    # An item must have fetches; they are taken from the collection `train_op`.
    fetches = [tensor.op for tensor in graph.outputs] + list(graph.control_outputs)
    for operation in fetches:
        graph.add_to_collection("train_op", operation)
    # Exporting needs a graph context, although the graph is passed.
    with graph.as_default():
        meta_graph = tf.compat.v1.train.export_meta_graph(graph=graph)
    started = time.perf_counter()
    usage = cluster.Cluster().DeterminePeakMemoryUsage(item.Item(meta_graph))
    peaks = [int(peak) for peak, _ in usage.values()]
    if not peaks or max(peaks) <= 0:
        return {"unavailable": "no answer"}
    return {"peak_bytes": max(peaks), "seconds": round(time.perf_counter() - started, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--with", dest="method", choices=("lowtide", "grappler"), default="lowtide")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    estimate = predict_with_lowtide if options.method == "lowtide" else estimate_with_grappler
    options.output.write_text(json.dumps(estimate(find(options.name))))


if __name__ == "__main__":
    main()
