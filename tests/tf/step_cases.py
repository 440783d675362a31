"""Small training steps of many kinds, each with the inputs it is measured on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from keras import layers


@dataclass
class StepCase:
    """A step to predict and to run. `inputs` are specs without the batch: ((shape, dtype), ...)."""

    target: Any
    batch_size: int
    inputs: Any
    high: int = 10
    """Integer inputs are drawn below this."""
    variables: tuple[Any, ...] = ()
    """What a prediction must leave alone, where the target is a function."""

    def batch(self) -> Any:
        """One batch, made by ops, so that the allocator holds it."""
        return map_specs(self.inputs, lambda shape, dtype: self._draw((self.batch_size, *shape), dtype))

    def _draw(self, shape: tuple[int, ...], dtype: str) -> tf.Tensor:
        if dtype.startswith("int"):
            # Labels are numbers below 4, ids as large as the case says.
            return tf.random.uniform(shape, maxval=self.high if shape[1:] else 4, dtype=dtype)
        return tf.random.uniform(shape, dtype=dtype)

    def specs(self) -> tuple[tf.TensorSpec, ...]:
        return map_specs(self.inputs, lambda shape, dtype: tf.TensorSpec((self.batch_size, *shape), dtype))


def map_specs(inputs: Any, make: Callable[[tuple[int, ...], str], Any]) -> Any:
    """Turn each (shape, dtype) of a nest of tuples and dicts into something else."""
    if isinstance(inputs, dict):
        return {key: map_specs(value, make) for key, value in inputs.items()}
    if len(inputs) == 2 and isinstance(inputs[1], str):
        return make(*inputs)
    return tuple(map_specs(value, make) for value in inputs)


IMAGE = ((20, 20, 3), "float32")
LABEL = ((), "int32")


def compiled(model: keras.Model, loss: Any = "sparse_categorical_crossentropy", **changes: Any) -> keras.Model:
    model.compile(**({"optimizer": "adam", "loss": loss, "jit_compile": False} | changes))
    return model


def mlp() -> StepCase:
    hidden = [layers.Dense(512, activation="relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((256,)), *hidden, layers.Dense(10, activation="softmax")])
    return StepCase(compiled(model, metrics=["accuracy"]), 512, (((256,), "float32"), LABEL))


def conv_layers(blocks: int = 3) -> list[Any]:
    made: list[Any] = []
    for _ in range(blocks):
        made += [layers.Conv2D(16, 3, padding="same"), layers.BatchNormalization(), layers.ReLU()]
    return [*made, layers.GlobalAveragePooling2D(), layers.Dense(10, activation="softmax")]


def conv() -> StepCase:
    return StepCase(compiled(keras.Sequential([keras.Input((20, 20, 3)), *conv_layers()])), 32, (IMAGE, LABEL))


def gru() -> StepCase:
    model = keras.Sequential([keras.Input((24, 32)), layers.GRU(96), layers.Dense(10, activation="softmax")])
    return StepCase(compiled(model), 64, (((24, 32), "float32"), LABEL))


def embedding() -> StepCase:
    made = [layers.Embedding(20000, 48), layers.GlobalAveragePooling1D(), layers.Dense(10, activation="softmax")]
    model = keras.Sequential([keras.Input((64,), dtype="int32"), *made])
    return StepCase(compiled(model), 64, (((64,), "int32"), LABEL), high=20000)


def step_of(loss_of: Callable[..., Any], weights: list[tf.Variable], *inputs: Any, batch_size: int) -> StepCase:
    """A step written by hand: a loss, its gradients and a plain update."""

    @tf.function
    def step(*data: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(*data)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.01 * gradient)
        return loss

    return StepCase(step, batch_size, tuple(inputs), variables=tuple(weights))


def cond() -> StepCase:
    weights = [tf.Variable(tf.random.normal((512, 512))) for _ in range(2)]

    def loss_of(x: tf.Tensor) -> tf.Tensor:
        hidden = tf.nn.relu(x @ weights[0])
        # Random inputs are positive, so the first branch is the one that runs: it is also the larger one.
        chosen = tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.nn.tanh(hidden @ weights[1]), lambda: hidden)
        return tf.reduce_mean(tf.square(chosen))

    return step_of(loss_of, weights, ((512,), "float32"), batch_size=1024)


def while_loop() -> StepCase:
    weights = [tf.Variable(tf.random.normal((256, 256), stddev=0.05))]

    def loss_of(x: tf.Tensor) -> tf.Tensor:
        def body(index: tf.Tensor, state: tf.Tensor) -> Any:
            return index + 1, tf.tanh(state @ weights[0])

        _, state = tf.while_loop(lambda index, _: index < 12, body, (0, x), maximum_iterations=12)
        return tf.reduce_mean(tf.square(state))

    return step_of(loss_of, weights, ((256,), "float32"), batch_size=1024)


def nested_function() -> StepCase:
    weights = [tf.Variable(tf.random.normal((384, 384), stddev=0.05)) for _ in range(3)]

    @tf.function
    def dense(x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(x @ weight)

    @tf.function
    def network(x: tf.Tensor) -> tf.Tensor:
        for weight in weights:
            x = dense(x, weight)
        return x

    return step_of(lambda x: tf.reduce_mean(tf.square(network(x))), weights, ((384,), "float32"), batch_size=1024)


def kept_constant() -> StepCase:
    """Half of what lasts is the gradient of the mean: 4 MiB that depend on nothing but the batch size."""
    weights = [tf.Variable(tf.random.normal((32, 1024)))]
    return step_of(lambda x: tf.reduce_mean(x @ weights[0]), weights, ((32,), "float32"), batch_size=1024)


def gan() -> StepCase:
    generator = keras.Sequential([keras.Input((64,)), layers.Dense(512, activation="relu"), layers.Dense(784)])
    discriminator = keras.Sequential([keras.Input((784,)), layers.Dense(512, activation="relu"), layers.Dense(1)])
    optimizers = [keras.optimizers.Adam(), keras.optimizers.Adam()]
    for optimizer, model in zip(optimizers, (generator, discriminator), strict=True):
        optimizer.build(model.trainable_variables)
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(real: tf.Tensor) -> tf.Tensor:
        noise = tf.random.normal((tf.shape(real)[0], 64))
        with tf.GradientTape() as first, tf.GradientTape() as second:
            true, false = discriminator(real), discriminator(generator(noise))
            losses = [entropy(tf.ones_like(false), false), entropy(tf.zeros_like(false), false) + entropy(true, true)]
        for tape, loss, model, optimizer in zip(
            (first, second), losses, (generator, discriminator), optimizers, strict=True
        ):
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return losses[0]

    held = [weight.value for model in (generator, discriminator) for weight in model.variables]
    held += [variable.value for optimizer in optimizers for variable in optimizer.variables]
    return StepCase(step, 512, (((784,), "float32"),), variables=tuple(held))


def several_inputs() -> StepCase:
    image, flat = keras.Input((16, 16, 8), name="image"), keras.Input((128,), name="flat")
    left = layers.GlobalAveragePooling2D()(layers.Conv2D(32, 3, activation="relu")(image))
    joined = layers.Concatenate()([left, layers.Dense(256, activation="relu")(flat)])
    outputs = {"kind": layers.Dense(10, activation="softmax", name="kind")(joined), "size": layers.Dense(1)(joined)}
    model = keras.Model({"image": image, "flat": flat}, outputs)
    compiled(model, {"kind": "sparse_categorical_crossentropy", "size": "mse"})
    inputs = {"image": ((16, 16, 8), "float32"), "flat": ((128,), "float32")}
    return StepCase(model, 128, (inputs, {"kind": LABEL, "size": ((1,), "float32")}))


def shared_layer() -> StepCase:
    first, second = keras.Input((400,)), keras.Input((400,))
    tower = keras.Sequential([layers.Dense(512, activation="relu"), layers.Dense(512)])
    model = keras.Model([first, second], layers.Dense(1)(layers.Multiply()([tower(first), tower(second)])))
    pair = (((400,), "float32"), ((400,), "float32"))
    return StepCase(
        compiled(model, "mse", optimizer=keras.optimizers.SGD(0.1, momentum=0.9)), 512, (pair, ((1,), "float32"))
    )


def conv3d() -> StepCase:
    made = [
        layers.Conv3D(16, 3, activation="relu"),
        layers.MaxPooling3D(),
        layers.Flatten(),
        layers.Dense(4, "softmax"),
    ]
    return StepCase(
        compiled(keras.Sequential([keras.Input((12, 12, 12, 4)), *made])), 16, (((12, 12, 12, 4), "float32"), LABEL)
    )


def attention() -> StepCase:
    x = keras.Input((48, 64))
    attended = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 16)(x, x))
    output = layers.Dense(64)(layers.Dense(128, activation="gelu")(attended)) + attended
    model = keras.Model(x, layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling1D()(output)))
    return StepCase(compiled(model), 32, (((48, 64), "float32"), LABEL))


def half_precision() -> StepCase:
    policy = keras.mixed_precision.DTypePolicy("mixed_bfloat16")
    hidden = [layers.Dense(512, activation="relu", dtype=policy) for _ in range(3)]
    model = keras.Sequential([keras.Input((256,)), *hidden, layers.Dense(10, activation="softmax")])
    return StepCase(compiled(model), 512, (((256,), "float32"), LABEL))


def accumulated() -> StepCase:
    hidden = [layers.Dense(512, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((256,)), *hidden, layers.Dense(10, activation="softmax")])
    compiled(model, optimizer=keras.optimizers.Adam(gradient_accumulation_steps=3))
    return StepCase(model, 256, (((256,), "float32"), LABEL))


class Penalised(keras.Model):
    """A model with a train step of its own: the loss of two passes over the same batch."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            calm, noisy = self(x, training=True), self(x + tf.random.normal(tf.shape(x)), training=True)
            loss = tf.reduce_mean(tf.square(calm - y)) + tf.reduce_mean(tf.square(calm - noisy))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def custom_train_step() -> StepCase:
    x = keras.Input((300,))
    model = Penalised(x, layers.Dense(20)(layers.Dense(600, activation="relu")(x)))
    return StepCase(compiled(model, "mse"), 512, (((300,), "float32"), ((20,), "float32")))


def several_steps() -> StepCase:
    hidden = [layers.Dense(512, activation="relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((256,)), *hidden, layers.Dense(10, activation="softmax")])
    return StepCase(compiled(model, steps_per_execution=4), 256, (((256,), "float32"), LABEL))


def tiny() -> StepCase:
    model = keras.Sequential([keras.Input((8,)), layers.Dense(16, activation="relu"), layers.Dense(1)])
    return StepCase(compiled(model, "mse"), 32, (((8,), "float32"), ((1,), "float32")))


CASES: dict[str, Callable[[], StepCase]] = {
    function.__name__: function
    for function in (
        mlp, conv, gru, embedding, cond, while_loop, nested_function, kept_constant, gan, several_inputs, shared_layer,
        conv3d, attention, half_precision, accumulated, custom_train_step, several_steps, tiny,
    )
}  # fmt: skip
