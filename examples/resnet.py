"""ResNet50 from keras.applications, compiled as most people train it.

lowtide predict examples/resnet.py:build --batch-size 64 --budget 8GiB
"""

import keras


def build() -> keras.Model:
    """Return a compiled ResNet50 with 1,000 classes."""
    model = keras.applications.ResNet50(weights=None)
    model.compile(optimizer=keras.optimizers.Adam(), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model
