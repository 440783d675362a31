"""Stacks of dense and convolutional layers, with and without skip connections."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from benchmarks.accuracy.architectures.compiling import ACCURACY, CLASSES, SPARSE, compile_model
from benchmarks.accuracy.zoo import Configuration


def _classify(tensor: Any, classes: int = CLASSES) -> Any:
    return layers.Dense(classes, activation="softmax", dtype="float32")(tensor)


def mlp(configuration: Configuration, depth: int = 20, width: int = 1024) -> Any:
    inputs = tensor = keras.Input((width,))
    for _ in range(depth):
        tensor = layers.Dense(width, activation="relu")(tensor)
    model = keras.Model(inputs, _classify(tensor))
    return compile_model(model, configuration, SPARSE, **ACCURACY)


def conv_chain(configuration: Configuration, depth: int = 16, image: int = 64) -> Any:
    inputs = tensor = keras.Input((image, image, 3))
    for _ in range(depth):
        tensor = layers.Conv2D(32, 3, padding="same", use_bias=False)(tensor)
        tensor = layers.BatchNormalization()(tensor)
        tensor = layers.ReLU()(tensor)
    model = keras.Model(inputs, _classify(layers.GlobalAveragePooling2D()(tensor)))
    return compile_model(model, configuration, SPARSE, **ACCURACY)


def autoencoder(configuration: Configuration, image: int = 96) -> Any:
    inputs = tensor = keras.Input((image, image, 3))
    for filters in (32, 64, 128):
        tensor = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(tensor)
    shape = tensor.shape[1:]
    tensor = layers.Dense(64, activation="relu")(layers.Flatten()(tensor))
    tensor = layers.Dense(shape[0] * shape[1] * shape[2], activation="relu")(tensor)
    tensor = layers.Reshape(shape)(tensor)
    for filters in (128, 64, 32):
        tensor = layers.Conv2DTranspose(filters, 3, strides=2, padding="same", activation="relu")(tensor)
    outputs = layers.Conv2D(3, 3, padding="same", activation="sigmoid", dtype="float32")(tensor)
    return compile_model(keras.Model(inputs, outputs), configuration, "mse")


def _double_conv(tensor: Any, filters: int) -> Any:
    for _ in range(2):
        tensor = layers.Conv2D(filters, 3, padding="same")(tensor)
        tensor = layers.GroupNormalization(groups=8)(tensor)
        tensor = layers.Activation("swish")(tensor)
    return tensor


def unet(configuration: Configuration, image: int = 96) -> Any:
    inputs = tensor = keras.Input((image, image, 3))
    skips = []
    for filters in (16, 32, 64):
        tensor = _double_conv(tensor, filters)
        skips.append(tensor)
        tensor = layers.MaxPooling2D()(tensor)
    tensor = _double_conv(tensor, 128)
    for filters in (64, 32, 16):
        tensor = layers.UpSampling2D(interpolation="bilinear")(tensor)
        tensor = _double_conv(layers.Concatenate()([tensor, skips.pop()]), filters)
    outputs = layers.Conv2D(CLASSES, 1, activation="softmax", dtype="float32")(tensor)
    return compile_model(keras.Model(inputs, outputs), configuration, SPARSE)


def conv3d(configuration: Configuration, frames: int = 16, image: int = 48) -> Any:
    inputs = tensor = keras.Input((frames, image, image, 3))
    for filters in (16, 32, 64):
        tensor = layers.Conv3D(filters, 3, padding="same", activation="relu")(tensor)
        tensor = layers.MaxPooling3D()(tensor)
    tensor = layers.Dropout(0.3)(layers.Flatten()(tensor))
    model = keras.Model(inputs, _classify(layers.Dense(128, activation="relu")(tensor)))
    return compile_model(model, configuration, SPARSE, **ACCURACY)


def siamese(configuration: Configuration, image: int = 64) -> Any:
    """Two images go through the same layers, so each weight receives two gradients."""
    tower_input = tensor = keras.Input((image, image, 3))
    for filters in (32, 64, 128):
        tensor = layers.Conv2D(filters, 3, padding="same", activation="relu")(tensor)
        tensor = layers.AveragePooling2D(2)(tensor)
    tower = keras.Model(tower_input, layers.Dense(64)(layers.GlobalAveragePooling2D()(tensor)))
    left, right = keras.Input((image, image, 3)), keras.Input((image, image, 3))
    difference = layers.Subtract()([tower(left), tower(right)])
    squared = layers.Multiply()([difference, difference])
    outputs = layers.Dense(1, activation="sigmoid", dtype="float32")(squared)
    return compile_model(keras.Model([left, right], outputs), configuration, "binary_crossentropy")


def multitask(configuration: Configuration, image: int = 64) -> Any:
    """One trunk with residual blocks and three outputs, each with its own loss."""
    inputs = keras.Input((image, image, 3))
    tensor = layers.Conv2D(48, 3, padding="same", activation="relu")(inputs)
    for _ in range(4):
        branch = layers.SeparableConv2D(48, 3, padding="same", activation="gelu")(tensor)
        branch = layers.Conv2D(48, 3, padding="same")(layers.LayerNormalization()(branch))
        tensor = layers.Add()([tensor, branch])
    pooled = layers.GlobalMaxPooling2D()(tensor)
    outputs = [
        layers.Dense(CLASSES, activation="softmax", name="label")(pooled),
        layers.Dense(4, name="box")(pooled),
        layers.Conv2D(1, 1, activation="sigmoid", name="mask")(tensor),
    ]
    losses = [SPARSE, "huber", "binary_crossentropy"]
    return compile_model(keras.Model(inputs, outputs), configuration, losses)


BUILDERS = {
    "mlp": mlp,
    "conv_chain": conv_chain,
    "autoencoder": autoencoder,
    "unet": unet,
    "conv3d": conv3d,
    "siamese": siamese,
    "multitask": multitask,
}
