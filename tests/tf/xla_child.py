"""Run compiled steps under the real allocator and print, as JSON, the predicted and the recorded allocations.

The allocator is chosen when TensorFlow is imported, so this runs in its own process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "true"
os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = "2000"

import keras
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.sources.profiles.xplane import read_profile
from lowtide.tf.trace.xla.calls import compile_call, is_compiled_call
from lowtide.tf.trace.xla.memory import compile_step, is_compiled
from lowtide.tf.trace.xla.tide import build_tide
from lowtide.tide.columns import Building

layers = keras.layers
Step = tuple[Callable[..., Any], list[tf.TensorSpec], Any]


def keras_step(model: keras.Model, optimizer: Any, loss: Any, specs: list[tf.TensorSpec]) -> Step:
    model.compile(optimizer, loss, metrics=["mae"], jit_compile=True)
    model.optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=True)
    def step(x: Any, y: Any) -> Any:
        return model.train_step((x, y))

    return step, specs, model


def dense_with_dropout() -> Step:
    parts = [layers.Input((200,)), layers.Dense(300, "relu"), layers.Dropout(0.3), layers.Dense(10)]
    specs = [tf.TensorSpec((None, 200)), tf.TensorSpec((None, 10))]
    return keras_step(keras.Sequential(parts), "adam", "mse", specs)


def convolutions_with_normalization() -> Step:
    inputs = layers.Input((32, 32, 3))
    outputs = layers.BatchNormalization()(layers.Conv2D(16, 3, padding="same")(inputs))
    outputs = layers.Add()([layers.Conv2D(16, 3, padding="same", activation="relu")(outputs), outputs])
    model = keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling2D()(outputs)))
    specs = [tf.TensorSpec((None, 32, 32, 3)), tf.TensorSpec((None, 4))]
    return keras_step(model, keras.optimizers.SGD(0.1, momentum=0.9), "mse", specs)


def recurrent() -> Step:
    model = keras.Sequential([layers.Input((12, 8)), layers.GRU(16), layers.Dense(1)])
    return keras_step(model, "rmsprop", "mse", [tf.TensorSpec((None, 12, 8)), tf.TensorSpec((None, 1))])


def two_optimizers() -> Step:
    maker = keras.Sequential([layers.Input((16,)), layers.Dense(64, "relu"), layers.Dense(128)])
    judge = keras.Sequential([layers.Input((128,)), layers.Dense(64, "relu"), layers.Dense(1)])
    optimizers = [keras.optimizers.Adam(), keras.optimizers.SGD()]
    for model, optimizer in zip((maker, judge), optimizers, strict=True):
        optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=True)
    def step(real: Any) -> Any:
        noise = tf.random.normal((tf.shape(real)[0], 16))
        with tf.GradientTape(persistent=True) as tape:
            fake = maker(noise, training=True)
            made = tf.reduce_mean(judge(fake, training=True) ** 2)
            judged = tf.reduce_mean((judge(real, training=True) - 1) ** 2) - made
        for loss, model, optimizer in zip((made, judged), (maker, judge), optimizers, strict=True):
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return made, judged, fake

    return step, [tf.TensorSpec((None, 128))], (maker, judge, optimizers)


def mixed_results() -> Step:
    weight = tf.Variable(tf.ones((30, 30)))
    captured = tf.random.normal((20, 30))

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        weight.assign_add(tf.matmul(x, captured[: tf.shape(x)[0]], transpose_a=True))
        return x, tf.constant([1.0, 2.0]), weight, tf.sort(tf.reshape(x, [-1])), tf.random.uniform((3,))

    return step, [tf.TensorSpec((None, 30))], (weight, captured)


CASES = {
    each.__name__: each
    for each in (dense_with_dropout, convolutions_with_normalization, recurrent, two_optimizers, mixed_results)
}


def record(run: Callable[[], Any]) -> list[int]:
    """Return the requests of one run: allocated bytes, and freed bytes as negative numbers."""
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, tf.profiler.experimental.ProfilerOptions(host_tracer_level=3))
        run()
        tf.profiler.experimental.stop()
        found = read_profile(next(Path(folder).rglob("*.xplane.pb"))).allocations
    pairs = zip(found.is_allocation.tolist(), found.requested_bytes.tolist(), strict=True)
    return [size if is_allocation else -size for is_allocation, size in pairs]


def bytes_in_use(which: str = "current") -> int:
    return int(tf.config.experimental.get_memory_info("CPU:0")[which])


def try_case(name: str, batch: int = 16) -> dict[str, Any]:
    step, specs, owner = CASES[name]()
    concrete = step.get_concrete_function(*specs)
    exact = [tf.TensorSpec((batch, *spec.shape[1:]), spec.dtype) for spec in specs]
    before = bytes_in_use()
    memory = compile_step(concrete, exact)
    left_over = bytes_in_use() - before
    names = [layer.name for layer in owner.layers] if isinstance(owner, keras.Model) else []
    tide = build_tide(memory, target=name, building=Building(1, 1, 1, None), layers=names)
    inputs = [tf.random.uniform(spec.shape, dtype=spec.dtype) for spec in exact]
    for _ in range(2):
        concrete(*inputs)
    sizes, events = memory.stream()
    alive = (tide.buffers.born <= tide.peak_event) & (tide.peak_event < tide.buffers.died)
    return {
        "predicted": [sizes[event] if event >= 0 else -sizes[~event] for event in events],
        "recorded": record(lambda: concrete(*inputs)),
        "left_over": left_over,
        "updated": sum(argument.is_updated for argument in memory.arguments),
        "argument_bytes": sum(argument.owner.bytes for argument in memory.arguments),
        "resident_bytes": sum(variable.dtype.size * variable.shape.num_elements() for variable in concrete.variables)
        + sum(each.dtype.size * each.shape.num_elements() for each in inputs),
        "kinds": sorted({argument.owner.kind for argument in memory.arguments}),
        "method": tide.method,
        "peak": tide.peak_bytes,
        "safe": tide.safe_bytes,
        "held": int(tide.buffers.allocated[alive].sum()),
        "breakdown": tide.breakdown(),
        "top": [(tensor.layer, tensor.kind, tensor.shape) for tensor in tide.top(30)],
    }


def try_growth() -> dict[str, Any]:
    """Predict for a batch of gigabytes, and measure what the prediction allocates."""
    step, specs, _alive = dense_with_dropout()
    concrete = step.get_concrete_function(*specs)
    tf.config.experimental.reset_memory_stats("CPU:0")
    before = bytes_in_use("peak")
    memory = compile_step(concrete, [tf.TensorSpec((1 << 22, *spec.shape[1:])) for spec in specs])
    return {"temp": memory.temp_bytes, "input": memory.arguments[0].owner.bytes, "taken": bytes_in_use("peak") - before}


def try_call() -> dict[str, Any]:
    """Predict a compiled function inside a step that is not compiled."""
    weight = tf.Variable(tf.random.normal((50, 30)))

    @tf.function(jit_compile=True)
    def inner(a: Any, b: Any) -> Any:
        hidden = tf.nn.relu(tf.matmul(a, weight)) + b
        weight.assign_sub(tf.matmul(a, hidden, transpose_a=True) * 1e-3)
        return hidden, tf.reduce_sum(hidden)

    @tf.function
    def outer(x: Any) -> Any:
        hidden, total = inner(tf.tanh(x), tf.ones((30,)))
        return hidden * total

    concrete = outer.get_concrete_function(tf.TensorSpec((40, 50)))
    call = next(op for op in concrete.graph.get_operations() if is_compiled_call(op.node_def))
    captured = {id(inside): outside for outside, inside in concrete.graph.captures}
    inputs = [captured.get(id(each), tf.TensorSpec(each.shape, each.dtype)) for each in call.inputs]
    memory = compile_call(call.node_def.attr["f"].func.name, inputs)
    x = tf.random.normal((40, 50))
    for _ in range(2):
        outer(x)
    return {
        "predicted": [allocation.owner.bytes for allocation in memory.allocations],
        "recorded": record(lambda: outer(x)),
        "aliased": sum(each.owner.bytes for each in memory.arguments if each.is_updated),
    }


def try_refusals() -> dict[str, str]:
    """Return the errors for steps that cannot be compiled."""

    @tf.function(jit_compile=True)
    def with_python(x: Any) -> Any:
        return tf.py_function(lambda value: value, [x], tf.float32)

    @tf.function(jit_compile=True)
    def plain(x: Any) -> Any:
        return x + 1

    messages = {}
    for name, function, shape in (("op", with_python, (3,)), ("dimension", plain, (None, 3))):
        try:
            compile_step(function, [tf.TensorSpec(shape)])
        except LowtideError as error:
            messages[name] = str(error)
    return messages


def try_is_compiled() -> dict[str, bool]:
    """Return which functions run under XLA."""
    functions = {jit: tf.function(lambda x: x + 1, jit_compile=jit) for jit in (True, False, None)}
    spec = tf.TensorSpec((3,))
    return {str(jit): is_compiled(function.get_concrete_function(spec)) for jit, function in functions.items()}


if __name__ == "__main__":
    results: dict[str, Any] = {name: try_case(name) for name in CASES}
    results["growth"] = try_growth()
    results["call"] = try_call()
    results["refusals"] = try_refusals()
    results["compiled"] = try_is_compiled()
    json.dump(results, sys.stdout)
