"""The time of a prediction: TensorFlow's share, lowtide's share, a second batch size, and growth with the graph.

python -m benchmarks.accuracy.speed
python -m benchmarks.accuracy.speed --nodes 1000 10000
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

from benchmarks.accuracy.measure import RESULTS
from benchmarks.common.cache import setting
from benchmarks.common.processes import run_module

NODES = (1_000, 3_000, 10_000, 30_000, 100_000)
# The stages of a prediction that TensorFlow runs; all others are lowtide's.
TENSORFLOW_STAGES = frozenset({"trace", "grappler"})
OPS_PER_ROUND = 4


def resnet_stages() -> list[dict[str, Any]]:
    """Return seconds by stage for ResNet50's Adam step, and for a second batch size of the same model."""
    from benchmarks.accuracy.architectures import build
    from benchmarks.accuracy.zoo import Configuration
    from lowtide.tf.trace.predict import predict

    model = build(Configuration("resnet50", 8))
    return [
        {"program": "ResNet50, Adam", "batch_size": batch_size, **_time(predict, model, batch_size=batch_size)}
        for batch_size in (8, 16)
    ]


def synthetic_step(nodes: int) -> Any:
    """Return a function of about `nodes` ops, none of which Grappler can fold or merge."""
    import tensorflow as tf

    weight = tf.Variable(tf.random.normal((32, 32)))

    def step(inputs: tf.Tensor) -> tf.Tensor:
        matrix = weight.read_value()
        tensor = inputs
        for _ in range(nodes // OPS_PER_ROUND):
            branch = tf.tanh(tf.matmul(tensor, matrix))
            tensor = branch + tf.sigmoid(tensor)
        return tensor

    return tf.function(step, autograph=False), tf.TensorSpec((64, 32))


def synthetic_stages(nodes: int) -> list[dict[str, Any]]:
    """Return seconds by stage for a synthetic function."""
    from lowtide.tf.trace.predict import predict

    return [{"program": "synthetic", "nodes": nodes, **_time(predict, *synthetic_step(nodes))}]


def _time(predict: Any, *arguments: Any, **rest: Any) -> dict[str, Any]:
    timings: dict[str, float] = {}
    started = time.perf_counter()
    tide = predict(*arguments, **rest, timings=timings)
    total = time.perf_counter() - started
    tensorflow = sum(value for stage, value in timings.items() if stage in TENSORFLOW_STAGES)
    return {
        "executed_nodes": tide.building.executed_nodes,
        "stages": timings,
        "tensorflow_seconds": tensorflow,
        "own_seconds": sum(timings.values()) - tensorflow,
        "total_seconds": total,
    }


def growth(rows: list[dict[str, Any]]) -> float | None:
    """Return the exponent with which lowtide's seconds grow over the last two sizes; 1 is linear."""
    points = [(row["executed_nodes"], row["own_seconds"]) for row in rows if row.get("own_seconds")]
    if len(points) < 2:
        return None
    (fewer, shorter), (more, longer) = points[-2:]
    return math.log(longer / shorter) / math.log(more / fewer)


def to_markdown(rows: list[dict[str, Any]]) -> str:
    """Return one line per prediction, with its stages."""
    lines = [
        "| program | batch or nodes | executed nodes | TensorFlow, s | lowtide, s | in all, s | stages |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['program']} | {row['failed']} | | | | | |")
            continue
        stages = ", ".join(f"{stage} {value:.2f}" for stage, value in row["stages"].items())
        size = row.get("batch_size") or row.get("nodes")
        lines.append(
            f"| {row['program']} | {size:,} | {row['executed_nodes']:,} | {row['tensorflow_seconds']:.2f} "
            f"| {row['own_seconds']:.2f} | {row['total_seconds']:.2f} | {stages} |"
        )
    return "\n".join(lines)


def run(programs: list[tuple[str, list[str]]]) -> list[dict[str, Any]]:
    """Run each program in its own process; a failure becomes a row."""
    rows: list[dict[str, Any]] = []
    for title, arguments in programs:
        result = run_module("benchmarks.accuracy.speed", arguments, {}, 1800.0)
        found = result.get("rows") or [{"program": title, "failed": result.get("failed") or result.get("crashed")}]
        rows += found
        print(to_markdown(found).splitlines()[-len(found) :], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="*", default=list(NODES))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        found = resnet_stages() if options.child == "resnet" else synthetic_stages(int(options.child))
        options.output.write_text(json.dumps({"rows": found}))
        return
    programs = [("ResNet50, Adam", ["--child", "resnet"])]
    programs += [(f"synthetic {nodes}", ["--child", str(nodes)]) for nodes in options.nodes]
    rows = run(programs)
    exponent = growth([row for row in rows if row["program"] == "synthetic"])
    report = to_markdown(rows)
    if exponent is not None:
        report += f"\n\nlowtide's own seconds grow with nodes to the power {exponent:.2f} between the two largest.\n"
    print(report)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "speed.md").write_text(f"# Seconds of a prediction\n\n{report}\n")
    body = {"setting": setting(), "rows": rows, "growth_exponent": exponent}
    (RESULTS / "speed.json").write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
