"""Published image classifiers, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from benchmarks.accuracy.architectures.compiling import SPARSE, compile_model
from benchmarks.accuracy.zoo import Configuration


def application(class_name: str, default_image: int = 224) -> Callable[..., Any]:
    def builder(configuration: Configuration, image: int = default_image) -> Any:
        model = getattr(keras.applications, class_name)(weights=None, input_shape=(image, image, 3))
        return compile_model(model, configuration, SPARSE, metrics=["accuracy"])

    return builder


BUILDERS = {
    "resnet50": application("ResNet50"),
    "mobilenetv2": application("MobileNetV2"),
    "densenet121": application("DenseNet121"),
    "xception": application("Xception"),
    "efficientnetv2b0": application("EfficientNetV2B0"),
    "mobilenetv3small": application("MobileNetV3Small"),
    "mobilenetv3large": application("MobileNetV3Large"),
    "vgg16": application("VGG16"),
    "inceptionv3": application("InceptionV3"),
    "nasnetmobile": application("NASNetMobile"),
    "convnexttiny": application("ConvNeXtTiny"),
}
