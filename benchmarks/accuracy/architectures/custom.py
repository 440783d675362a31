"""Custom steps: training loops, loops and branches in the graph, custom `train_step`."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from benchmarks.accuracy.architectures.compiling import CLASSES, compile_model, make_optimizer
from benchmarks.accuracy.zoo import Configuration


def _step(function: Any, configuration: Configuration, *specs: tf.TensorSpec) -> tuple[Any, ...]:
    return (tf.function(function, jit_compile=configuration.xla or None), *specs)


def gan(configuration: Configuration, image: int = 32, latent: int = 64) -> Any:
    """A generator and a discriminator, each with its optimizer, both updated in one step."""
    side = image // 4
    generator = keras.Sequential(
        [
            keras.Input((latent,)),
            layers.Dense(side * side * 128),
            layers.Reshape((side, side, 128)),
            layers.Conv2DTranspose(128, 4, strides=2, padding="same"),
            layers.BatchNormalization(),
            layers.LeakyReLU(),
            layers.Conv2DTranspose(64, 4, strides=2, padding="same"),
            layers.BatchNormalization(),
            layers.LeakyReLU(),
            layers.Conv2D(3, 3, padding="same", activation="tanh"),
        ]
    )
    discriminator = keras.Sequential(
        [
            keras.Input((image, image, 3)),
            layers.Conv2D(64, 4, strides=2, padding="same"),
            layers.LeakyReLU(),
            layers.Conv2D(128, 4, strides=2, padding="same"),
            layers.LeakyReLU(),
            layers.Dropout(0.3),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    optimizers = [make_optimizer(configuration), make_optimizer(configuration)]
    for optimizer, model in zip(optimizers, (generator, discriminator), strict=True):
        optimizer.build(model.trainable_variables)
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    def step(images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        noise = tf.random.normal((tf.shape(images)[0], latent))
        with tf.GradientTape() as generator_tape, tf.GradientTape() as discriminator_tape:
            made = generator(noise, training=True)
            true, false = discriminator(images, training=True), discriminator(made, training=True)
            generator_loss = entropy(tf.ones_like(false), false)
            discriminator_loss = entropy(tf.ones_like(true), true) + entropy(tf.zeros_like(false), false)
        for tape, loss, model, optimizer in (
            (generator_tape, generator_loss, generator, optimizers[0]),
            (discriminator_tape, discriminator_loss, discriminator, optimizers[1]),
        ):
            variables = model.trainable_variables
            gradients = tape.gradient(loss, variables)
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return generator_loss, discriminator_loss

    return _step(step, configuration, tf.TensorSpec((configuration.batch_size, image, image, 3)))


def while_lstm(configuration: Configuration, length: int = 40, units: int = 192) -> Any:
    """An LSTM cell written by hand inside `tf.while_loop`, without Keras's layers."""
    shapes = ((64 + units, 4 * units), (4 * units,), (units, CLASSES))
    weights = [keras.Variable("glorot_uniform" if len(shape) == 2 else "zeros", shape) for shape in shapes]
    kernel, bias, head = (weight.value for weight in weights)
    optimizer = make_optimizer(configuration)
    optimizer.build(weights)

    def logits(sequence: tf.Tensor) -> tf.Tensor:
        empty = tf.zeros((tf.shape(sequence)[0], units))

        def body(index: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor) -> Any:
            joined = tf.concat([sequence[:, index], hidden], axis=1)
            gates = tf.split(tf.matmul(joined, kernel) + bias, 4, axis=1)
            cell = tf.sigmoid(gates[0]) * cell + tf.sigmoid(gates[1]) * tf.tanh(gates[2])
            return index + 1, tf.sigmoid(gates[3]) * tf.tanh(cell), cell

        _, hidden, _ = tf.while_loop(
            lambda index, *_: index < length, body, (0, empty, empty), maximum_iterations=length
        )
        return tf.matmul(hidden, head)

    def step(sequence: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits(sequence))
            loss = tf.reduce_mean(losses)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    batch = configuration.batch_size
    labels = tf.TensorSpec((batch,), tf.int32, name="labels")
    return _step(step, configuration, tf.TensorSpec((batch, length, 64)), labels)


def cond(configuration: Configuration, width: int = 512) -> Any:
    """A wide and a narrow branch; the data determines which of them runs."""
    inputs = keras.Input((width,))
    trunk = keras.Model(inputs, layers.Dense(width, activation="relu")(inputs))
    wide = keras.Sequential([keras.Input((width,)), *(layers.Dense(2048, "relu") for _ in range(3))])
    narrow = keras.Sequential([keras.Input((width,)), layers.Dense(2048, "relu")])
    head = keras.Sequential([keras.Input((2048,)), layers.Dense(CLASSES)])
    variables = [entry for part in (trunk, wide, narrow, head) for entry in part.trainable_variables]
    optimizer = make_optimizer(configuration)
    optimizer.build(variables)

    def step(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = trunk(features, training=True)
            # Uniform features have a mean near one half, so the wide branch is the one taken.
            chosen = tf.cond(tf.reduce_mean(features) > 0.1, lambda: wide(hidden), lambda: narrow(hidden))
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, head(chosen))
            loss = tf.reduce_mean(losses)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    batch = configuration.batch_size
    labels = tf.TensorSpec((batch,), tf.int32, name="labels")
    return _step(step, configuration, tf.TensorSpec((batch, width)), labels)


class VariationalAutoencoder(keras.Model):
    """A functional model whose step adds the divergence of the code to the reconstruction loss."""

    def train_step(self, data: Any) -> dict[str, Any]:
        images = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            made, mean, log_variance = self(images, training=True)
            reconstruction = tf.reduce_mean(tf.reduce_sum(tf.square(images - made), axis=(1, 2, 3)))
            divergence = 1 + log_variance - tf.square(mean) - tf.exp(log_variance)
            loss = reconstruction - 0.5 * tf.reduce_mean(tf.reduce_sum(divergence, axis=1))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss, "reconstruction": reconstruction}


class Sampling(layers.Layer):
    def __init__(self, **rest: Any) -> None:
        super().__init__(**rest)
        self.generator = keras.random.SeedGenerator(0)

    def call(self, inputs: Any) -> Any:
        mean, log_variance = inputs
        noise = keras.random.normal(keras.ops.shape(mean), seed=self.generator)
        return mean + keras.ops.exp(0.5 * log_variance) * noise


def vae(configuration: Configuration, image: int = 32, latent: int = 16) -> Any:
    inputs = tensor = keras.Input((image, image, 1))
    for filters in (32, 64):
        tensor = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(tensor)
    shape = tensor.shape[1:]
    tensor = layers.Flatten()(tensor)
    mean, log_variance = layers.Dense(latent)(tensor), layers.Dense(latent)(tensor)
    tensor = layers.Dense(shape[0] * shape[1] * shape[2], activation="relu")(Sampling()([mean, log_variance]))
    tensor = layers.Reshape(shape)(tensor)
    for filters in (64, 32):
        tensor = layers.Conv2DTranspose(filters, 3, strides=2, padding="same", activation="relu")(tensor)
    made = layers.Conv2D(1, 3, padding="same", activation="sigmoid")(tensor)
    model = VariationalAutoencoder(inputs, [made, mean, log_variance])
    return compile_model(model, configuration, loss=None)


BUILDERS = {"gan": gan, "while_lstm": while_lstm, "cond": cond, "vae": vae}
