"""Measured times of kernels, compared with the cost model: python -m benchmarks.kernels

The executor's simulation only asks which of two kernels ends first, so what counts is that the ratios of measured to
estimated durations lie close together, not that they are 1 on this machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from lowtide.simulator.workload import build_workload
from lowtide.tf.trace.simulated_step import SimulatedStep
from lowtide.tf.trace.step_cache import find_step

Case = tuple[str, Callable[..., Any], list[tuple[int, ...]]]

CONVOLUTIONS = [
    # images, size, channels in and out, window, stride
    (16, 96, 32, 3, 3, 1),
    (16, 96, 3, 32, 3, 1),
    (16, 48, 64, 64, 3, 1),
    (16, 12, 256, 256, 3, 1),
    (16, 6, 512, 512, 3, 1),
    (16, 56, 64, 256, 1, 1),
    (16, 14, 1024, 256, 1, 1),
    (8, 224, 3, 64, 7, 2),
    (32, 28, 128, 1, 5, 1),
    (16, 32, 128, 64, 3, 2),
]
PRODUCTS = [(32, 1024, 1024), (1024, 32, 1024), (1024, 1024, 1024), (16, 2048, 512), (512, 4096, 512), (256, 64, 256)]
ELEMENTWISE = "Mul Sub RealDiv Sqrt Exp Sigmoid Tanh Relu ReluGrad Pow AddN".split()
REDUCTIONS = "Sum Mean Max Softmax BiasAddGrad Transpose".split()


def convolutions() -> Iterator[Case]:
    for images, size, channels, results, window, stride in CONVOLUTIONS:
        shape, filters = (images, size, size, channels), (window, window, channels, results)
        reduced = -(-size // stride)
        result = (images, reduced, reduced, results)
        step = {"strides": [1, stride, stride, 1], "padding": "SAME"}
        yield (
            "Conv2D",
            lambda x, f, step=step: tf.raw_ops.Conv2D(input=x, filter=f, **step),
            [shape, filters],
        )
        yield (
            "Conv2DBackpropInput",
            lambda f, y, shape=shape, step=step: tf.raw_ops.Conv2DBackpropInput(
                input_sizes=shape, filter=f, out_backprop=y, **step
            ),
            [filters, result],
        )
        yield (
            "Conv2DBackpropFilter",
            lambda x, y, filters=filters, step=step: tf.raw_ops.Conv2DBackpropFilter(
                input=x, filter_sizes=filters, out_backprop=y, **step
            ),
            [shape, result],
        )
    for images, size, channels, window in ((16, 56, 96, 3), (8, 28, 192, 3), (16, 32, 64, 5)):
        yield (
            "DepthwiseConv2dNative",
            lambda x, f: tf.raw_ops.DepthwiseConv2dNative(input=x, filter=f, strides=[1] * 4, padding="SAME"),
            [(images, size, size, channels), (window, window, channels, 1)],
        )


def products() -> Iterator[Case]:
    for rows, shared, columns in PRODUCTS:
        for left in (False, True):
            for right in (False, True):
                yield (
                    "MatMul",
                    lambda a, b, left=left, right=right: tf.linalg.matmul(a, b, transpose_a=left, transpose_b=right),
                    [(shared, rows) if left else (rows, shared), (columns, shared) if right else (shared, columns)],
                )


def _elementwise(op: str, x: Any, y: Any) -> Any:
    kernel = getattr(tf.raw_ops, op)
    if op == "AddN":
        return kernel(inputs=[x, y])
    if op == "Relu":
        return kernel(features=x)
    if op == "ReluGrad":
        return kernel(gradients=x, features=y)
    return kernel(x=x) if op in "Sqrt Exp Sigmoid Tanh" else kernel(x=x, y=y)


def _reduction(op: str, x: Any) -> Any:
    kernel = getattr(tf.raw_ops, op)
    if op == "Softmax":
        return kernel(logits=x)
    if op == "BiasAddGrad":
        return kernel(out_backprop=x)
    return kernel(x=x, perm=(1, 0)) if op == "Transpose" else kernel(input=x, axis=0)


def streams() -> Iterator[Case]:
    for rows in (4096, 32768):
        for op in ELEMENTWISE:
            yield op, lambda x, y, op=op: _elementwise(op, x, y), [(rows, 256)] * 2
        for op in REDUCTIONS:
            yield op, lambda x, op=op: _reduction(op, x), [(rows, 256)]


def estimated_us(op: str, function: Any, specs: list[tf.TensorSpec]) -> float:
    """Return the modelled time of the one node of this op, or of oneDNN's version of it."""
    step = find_step(function, tuple(specs), None, None)
    assert isinstance(step, SimulatedStep)
    work = build_workload(step.program.graph_at(None))
    costs = [work.cost_us[node] for node, name in enumerate(work.graph.ops) if name.endswith(op)]
    return sum(costs)


def measured_us(function: Any, specs: list[tf.TensorSpec], repeats: int) -> float:
    """The median over a few calls, each of which is given new inputs' shapes but no new memory."""
    tensors = [tf.random.uniform(spec.shape, 0.1, 1.0) for spec in specs]
    function(*tensors)
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = function(*tensors)
        seconds.append(time.perf_counter() - started)
        del result
    return statistics.median(seconds) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of an op's name")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    ratios = []
    for op, call, shapes in (*convolutions(), *products(), *streams()):
        if options.only not in op:
            continue
        function = tf.function(call)
        specs = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
        believed, took = estimated_us(op, function, specs), measured_us(function, specs, options.repeats)
        ratios.append(took / believed if believed else float("nan"))
        print(f"{op:22s} {took:9.0f} us  estimated {believed:9.0f}  ratio {ratios[-1]:5.2f}  {shapes}", flush=True)
    known = sorted(ratio for ratio in ratios if ratio == ratio)
    if known:
        tenth = len(known) // 10
        print(
            f"ratio: median {statistics.median(known):.2f}, 80% between {known[tenth]:.2f} and {known[-1 - tenth]:.2f}"
        )


if __name__ == "__main__":
    main()
