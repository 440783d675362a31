"""Programs that nothing was developed or tuned on: they show how the numbers hold elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import layers

from benchmarks.accuracy.architectures.applications import application
from benchmarks.accuracy.architectures.attention import VOCABULARY
from benchmarks.accuracy.architectures.compiling import ACCURACY, CLASSES, SPARSE, compile_model, make_optimizer
from benchmarks.accuracy.zoo import Configuration


def _classified(configuration: Configuration, inputs: Any, features: Any) -> Any:
    outputs = layers.Dense(CLASSES, activation="softmax", dtype="float32")(features)
    return compile_model(keras.Model(inputs, outputs), configuration, SPARSE, **ACCURACY)


def equal_convolutions(configuration: Configuration, depth: int = 40, image: int = 64) -> Any:
    """A chain in which all tensors have the same size."""
    inputs = tensor = keras.Input((image, image, 3))
    for _ in range(depth):
        tensor = layers.Conv2D(48, 3, padding="same", activation="relu")(tensor)
    return _classified(configuration, inputs, layers.GlobalAveragePooling2D()(tensor))


def video_residual(configuration: Configuration, frames: int = 8, image: int = 56) -> Any:
    inputs = keras.Input((frames, image, image, 3))
    tensor = layers.Conv3D(24, 3, padding="same")(inputs)
    for filters in (24, 48, 96):
        branch = layers.Conv3D(filters, 3, padding="same", activation="relu")(tensor)
        branch = layers.BatchNormalization()(layers.Conv3D(filters, 3, padding="same")(branch))
        tensor = layers.ReLU()(layers.Add()([branch, layers.Conv3D(filters, 1)(tensor)]))
        tensor = layers.MaxPooling3D()(tensor)
    return _classified(configuration, inputs, layers.GlobalAveragePooling3D()(tensor))


def super_resolution(configuration: Configuration, image: int = 48, scale: int = 2) -> Any:
    """Residual blocks without normalization, and pixels that are shuffled from channels to space."""
    inputs = keras.Input((image, image, 3))
    head = tensor = layers.Conv2D(64, 3, padding="same")(inputs)
    for _ in range(8):
        branch = layers.Conv2D(64, 3, padding="same", activation="relu")(tensor)
        branch = layers.Rescaling(0.1)(layers.Conv2D(64, 3, padding="same")(branch))
        tensor = layers.Add()([tensor, branch])
    tensor = layers.Conv2D(64 * scale**2, 3, padding="same")(layers.Add()([tensor, head]))
    shuffled = layers.Lambda(
        lambda pixels: tf.nn.depth_to_space(pixels, scale), output_shape=(image * scale, image * scale, 64)
    )(tensor)
    model = keras.Model(inputs, layers.Conv2D(3, 3, padding="same", dtype="float32")(shuffled))
    return compile_model(model, configuration, "mae")


def dilated_segmentation(configuration: Configuration, image: int = 96) -> Any:
    """Parallel dilated convolutions over one backbone, resized to the size of the image."""
    inputs = tensor = keras.Input((image, image, 3))
    for filters in (32, 64, 128):
        tensor = layers.SeparableConv2D(filters, 3, strides=2, padding="same", use_bias=False)(tensor)
        tensor = layers.Activation("relu")(layers.BatchNormalization()(tensor))
    branches = [layers.Conv2D(64, 3, padding="same", dilation_rate=rate)(tensor) for rate in (1, 2, 4)]
    pooled = layers.GlobalAveragePooling2D(keepdims=True)(tensor)
    branches.append(layers.UpSampling2D(image // 8)(layers.Conv2D(64, 1, activation="relu")(pooled)))
    tensor = layers.Conv2D(64, 1, activation="relu")(layers.Concatenate()(branches))
    tensor = layers.UpSampling2D(8, interpolation="bilinear")(tensor)
    outputs = layers.Conv2D(CLASSES, 1, activation="softmax", dtype="float32")(tensor)
    return compile_model(keras.Model(inputs, outputs), configuration, SPARSE)


def denoising_unet(configuration: Configuration, image: int = 32) -> Any:
    """A U-Net with attention at its lowest level, and an embedding of the time added to each block."""
    inputs, times = keras.Input((image, image, 3)), keras.Input((1,))
    shift = layers.Dense(128, activation="silu")(times)

    def convolution(tensor: Any, filters: int) -> Any:
        normal = layers.Activation("silu")(layers.GroupNormalization(8)(tensor))
        return layers.Conv2D(filters, 3, padding="same")(normal)

    def block(tensor: Any, filters: int) -> Any:
        hidden = convolution(tensor, filters)
        hidden = layers.Add()([hidden, layers.Reshape((1, 1, filters))(layers.Dense(filters)(shift))])
        return layers.Add()([convolution(hidden, filters), layers.Conv2D(filters, 1)(tensor)])

    tensor, skips = layers.Conv2D(32, 3, padding="same")(inputs), []
    for filters in (32, 64, 128):
        tensor = block(tensor, filters)
        skips.append(tensor)
        tensor = layers.AveragePooling2D(2)(tensor)
    side = image // 8
    flat = layers.Reshape((side * side, 128))(tensor)
    tensor = layers.Reshape((side, side, 128))(layers.MultiHeadAttention(4, 32)(flat, flat))
    for filters in (128, 64, 32):
        tensor = block(layers.Concatenate()([layers.UpSampling2D()(tensor), skips.pop()]), filters)
    model = keras.Model([inputs, times], layers.Conv2D(3, 3, padding="same", dtype="float32")(tensor))
    return compile_model(model, configuration, "mse")


def decoder(configuration: Configuration, length: int = 96, width: int = 192, depth: int = 6) -> Any:
    """A language model with a gated feed-forward part and normalization by the root mean square."""
    inputs = keras.Input((length,), dtype="int32")
    tensor = layers.Embedding(VOCABULARY, width)(inputs)
    for _ in range(depth):
        normal = layers.RMSNormalization()(tensor)
        attended = layers.GroupQueryAttention(32, 6, 2)(normal, normal, use_causal_mask=True)
        tensor = layers.Add()([tensor, attended])
        normal = layers.RMSNormalization()(tensor)
        gated = layers.Multiply()([layers.Dense(2 * width, "silu")(normal), layers.Dense(2 * width)(normal)])
        tensor = layers.Add()([tensor, layers.Dense(width)(gated)])
    outputs = layers.Dense(VOCABULARY, activation="softmax", dtype="float32")(tensor)
    return compile_model(keras.Model(inputs, outputs), configuration, SPARSE)


def tabular(configuration: Configuration, fields: int = 40, width: int = 64) -> Any:
    """Attention over the fields of a row."""
    inputs = keras.Input((fields,), dtype="int32")
    tensor = layers.Embedding(VOCABULARY, width)(inputs)
    for _ in range(3):
        tensor = layers.LayerNormalization()(layers.Add()([tensor, layers.MultiHeadAttention(4, 16)(tensor, tensor)]))
        hidden = layers.Dropout(0.1)(layers.Dense(4 * width, activation="relu")(tensor))
        tensor = layers.LayerNormalization()(layers.Add()([tensor, layers.Dense(width)(hidden)]))
    return _classified(configuration, inputs, layers.Flatten()(tensor))


def squeeze_and_excite(configuration: Configuration, image: int = 80) -> Any:
    """Bottlenecks with grouped convolutions whose channels are weighted."""
    inputs = keras.Input((image, image, 3))
    tensor = layers.Conv2D(64, 3, strides=2, padding="same")(inputs)
    for filters, strides in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        branch = layers.Conv2D(filters, 1, activation="relu", use_bias=False)(tensor)
        branch = layers.Conv2D(filters, 3, strides=strides, padding="same", groups=8, use_bias=False)(branch)
        branch = layers.BatchNormalization()(branch)
        weights = layers.Dense(filters // 8, activation="relu")(layers.GlobalAveragePooling2D(keepdims=True)(branch))
        branch = layers.Multiply()([branch, layers.Dense(filters, activation="sigmoid")(weights)])
        shortcut = layers.Conv2D(filters, 1, strides=strides)(tensor)
        tensor = layers.ReLU()(layers.Add()([branch, shortcut]))
    return _classified(configuration, inputs, layers.GlobalAveragePooling2D()(tensor))


def gradient_penalty(configuration: Configuration, image: int = 32) -> Any:
    """A critic with a penalty on the gradient of its output: a gradient of a gradient."""
    critic = keras.Sequential(
        [
            keras.Input((image, image, 3)),
            *(layers.Conv2D(filters, 4, strides=2, padding="same", activation="elu") for filters in (64, 128, 256)),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    optimizer = make_optimizer(configuration)
    optimizer.build(critic.trainable_variables)

    def step(real: tf.Tensor, made: tf.Tensor) -> tf.Tensor:
        share = tf.random.uniform((tf.shape(real)[0], 1, 1, 1))
        mixed = share * real + (1.0 - share) * made
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(mixed)
                scores = critic(mixed, training=True)
            slopes = tf.sqrt(tf.reduce_sum(tf.square(inner.gradient(scores, mixed)), axis=(1, 2, 3)) + 1e-12)
            penalty = tf.reduce_mean(tf.square(slopes - 1.0))
            loss = tf.reduce_mean(critic(made)) - tf.reduce_mean(critic(real)) + 10.0 * penalty
        variables = critic.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    spec = tf.TensorSpec((configuration.batch_size, image, image, 3))
    return (tf.function(step), spec, spec)


BUILDERS: dict[str, Callable[..., Any]] = {
    "efficientnetb0": application("EfficientNetB0"),
    "resnet50v2": application("ResNet50V2"),
    "mobilenet": application("MobileNet"),
    "vgg19": application("VGG19"),
    "convnextsmall": application("ConvNeXtSmall"),
    "equal_convolutions": equal_convolutions,
    "video_residual": video_residual,
    "super_resolution": super_resolution,
    "dilated_segmentation": dilated_segmentation,
    "denoising_unet": denoising_unet,
    "decoder": decoder,
    "tabular": tabular,
    "squeeze_and_excite": squeeze_and_excite,
    "gradient_penalty": gradient_penalty,
}
