"""Steps that are not Keras's own: a GAN with two tapes in a loop of its own, and a VAE with its own `train_step`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import layers

from benchmarks.fit.programs.images import compile_model

WIDTHS = (32, 64, 128, 256)


def _generator(image: int, latent: int) -> keras.Model:
    side = image // 2 ** len(WIDTHS)
    inputs = keras.Input((latent,))
    tensor = layers.Reshape((side, side, WIDTHS[-1]))(layers.Dense(side * side * WIDTHS[-1])(inputs))
    for number, filters in enumerate(reversed(WIDTHS[:-1])):
        tensor = layers.Conv2DTranspose(filters, 4, strides=2, padding="same", use_bias=False)(tensor)
        tensor = layers.BatchNormalization()(tensor)
        tensor = layers.LeakyReLU(name=f"block{number}")(tensor)
    return keras.Model(inputs, layers.Conv2DTranspose(3, 4, strides=2, padding="same", activation="tanh")(tensor))


def _discriminator(image: int) -> keras.Model:
    inputs = tensor = keras.Input((image, image, 3))
    for number, filters in enumerate(WIDTHS):
        tensor = layers.Conv2D(filters, 4, strides=2, padding="same", use_bias=False)(tensor)
        tensor = layers.BatchNormalization()(tensor)
        tensor = layers.LeakyReLU()(tensor)
        tensor = layers.Dropout(0.3, name=f"block{number}")(tensor)
    return keras.Model(inputs, layers.Dense(1)(layers.Flatten()(tensor)))


def gan(image: int = 64, latent: int = 64) -> Callable[[int], Any]:
    """Two models, two tapes, two optimizers, one step."""
    generator, discriminator = models = _generator(image, latent), _discriminator(image)
    optimizers = keras.optimizers.Adam(1e-4), keras.optimizers.Adam(1e-4)
    for optimizer, model in zip(optimizers, models, strict=True):
        optimizer.build(model.trainable_variables)
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    def forward(images: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        made = generator(noise, training=True)
        true, false = discriminator(images, training=True), discriminator(made, training=True)
        fooled = entropy(tf.ones_like(false), false)
        return fooled, entropy(tf.ones_like(true), true) + entropy(tf.zeros_like(false), false)

    def step(images: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as first, tf.GradientTape() as second:
            losses = forward(images, noise)
        for tape, loss, model, optimizer in zip((first, second), losses, models, optimizers, strict=True):
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return losses

    def of_size(batch_size: int) -> Any:
        specs = tf.TensorSpec((batch_size, image, image, 3)), tf.TensorSpec((batch_size, latent))
        return models, optimizers, specs, forward, step

    return of_size


class Sampling(layers.Layer):
    """A code drawn around its mean."""

    def __init__(self, **rest: Any) -> None:
        super().__init__(**rest)
        self.generator = keras.random.SeedGenerator(0)

    def call(self, inputs: Any) -> Any:
        mean, log_variance = inputs
        noise = keras.random.normal(keras.ops.shape(mean), seed=self.generator)
        return mean + keras.ops.exp(0.5 * log_variance) * noise


class VariationalAutoencoder(keras.Model):
    """A functional model whose step adds the divergence of the code to the reconstruction loss."""

    def train_step(self, data: Any) -> dict[str, Any]:
        images = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            made, mean, log_variance = self(images, training=True)
            reconstruction = tf.reduce_mean(tf.square(images - made))
            divergence = 1 + log_variance - tf.square(mean) - tf.exp(log_variance)
            loss = reconstruction - 0.001 * tf.reduce_mean(tf.reduce_sum(divergence, axis=1))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss, "reconstruction": reconstruction}


def _stack(tensor: Any, filters: int, number: int) -> Any:
    for place in range(4):
        name = f"block{number}" if place == 3 else None
        tensor = layers.Conv2D(filters, 3, padding="same", activation="relu", name=name)(tensor)
    return tensor


def vae(image: int = 64, latent: int = 32, widths: tuple[int, ...] = (32, 64)) -> keras.Model:
    inputs = tensor = keras.Input((image, image, 3))
    for number, filters in enumerate(widths):
        tensor = layers.Conv2D(filters, 4, strides=2, padding="same", activation="relu")(tensor)
        tensor = _stack(tensor, filters, number)
    shape = tensor.shape[1:]
    flat = layers.Flatten()(tensor)
    mean, log_variance = layers.Dense(latent)(flat), layers.Dense(latent)(flat)
    tensor = layers.Dense(shape[0] * shape[1] * shape[2], activation="relu")(Sampling()([mean, log_variance]))
    tensor = layers.Reshape(shape)(tensor)
    for number, filters in enumerate(reversed(widths), len(widths)):
        tensor = _stack(tensor, filters, number)
        filters = 3 if filters == widths[0] else filters // 2
        activation = "sigmoid" if filters == 3 else "relu"
        tensor = layers.Conv2DTranspose(filters, 4, strides=2, padding="same", activation=activation)(tensor)
    return compile_model(VariationalAutoencoder(inputs, [tensor, mean, log_variance]), loss=None)


BUILDERS: dict[str, Callable[[], Any]] = {"gan": gan, "vae": vae}
