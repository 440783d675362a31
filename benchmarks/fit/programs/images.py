"""Image classifiers, a segmenter and a chain of convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

CLASSES = 10
SPARSE = "sparse_categorical_crossentropy"


def compile_model(model: keras.Model, loss: Any = SPARSE, optimizer: Any = None) -> keras.Model:
    """The model, compiled, with the optimizer's slots made as the first step would make them."""
    # The learning rate is small, so that random labels never lead to NaN.
    model.compile(optimizer=optimizer or keras.optimizers.SGD(1e-3, momentum=0.9), loss=loss)
    model.optimizer.build(model.trainable_variables)
    return model


def _application(class_name: str, image: int) -> Callable[[], keras.Model]:
    """A published classifier with a head of ten classes."""

    def builder() -> keras.Model:
        maker = getattr(keras.applications, class_name)
        trunk = maker(weights=None, include_top=False, pooling="avg", input_shape=(image, image, 3))
        outputs = layers.Dense(CLASSES, activation="softmax")(trunk.output)
        return compile_model(keras.Model(trunk.input, outputs))

    return builder


def conv_chain(depth: int = 24, image: int = 64, filters: int = 16) -> keras.Model:
    inputs = tensor = keras.Input((image, image, 3))
    for index in range(depth):
        tensor = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"layer{index}")(tensor)
    pooled = layers.GlobalAveragePooling2D()(tensor)
    return compile_model(keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(pooled)))


def _level(tensor: Any, filters: int, number: int) -> Any:
    """Two blocks of two convolutions, as in the U-Nets of today's diffusion models."""
    for block in (2 * number, 2 * number + 1):
        for last in (False, True):
            tensor = layers.Conv2D(filters, 3, padding="same", use_bias=False)(tensor)
            tensor = layers.BatchNormalization()(tensor)
            tensor = layers.ReLU(name=f"block{block}" if last else None)(tensor)
    return tensor


def unet(image: int = 128, widths: tuple[int, ...] = (16, 32, 64, 128)) -> keras.Model:
    inputs = tensor = keras.Input((image, image, 3))
    skips: list[Any] = []
    for number, filters in enumerate(widths):
        tensor = _level(tensor, filters, number)
        skips.append(tensor)
        tensor = layers.MaxPooling2D()(tensor)
    tensor = _level(tensor, 2 * widths[-1], len(widths))
    for number, filters in enumerate(reversed(widths), len(widths) + 1):
        tensor = layers.Conv2DTranspose(filters, 2, strides=2)(tensor)
        tensor = _level(layers.Concatenate()([tensor, skips.pop()]), filters, number)
    outputs = layers.Conv2D(CLASSES, 1, activation="softmax")(tensor)
    return compile_model(keras.Model(inputs, outputs))


BUILDERS: dict[str, Callable[[], Any]] = {
    "vgg19": _application("VGG19", 64),
    "resnet50": _application("ResNet50", 96),
    "densenet121": _application("DenseNet121", 64),
    "mobilenetv2": _application("MobileNetV2", 96),
    "conv_chain": conv_chain,
    "unet": unet,
}
