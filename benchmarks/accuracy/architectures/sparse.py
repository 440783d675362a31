"""Models with embedding tables, whose gradients are sparse."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from benchmarks.accuracy.architectures.attention import VOCABULARY
from benchmarks.accuracy.architectures.compiling import CLASSES, SPARSE, compile_model
from benchmarks.accuracy.zoo import Configuration


def _tower(name: str, width: int) -> tuple[Any, Any]:
    inputs = keras.Input((), dtype="int32", name=name)
    tensor = layers.Embedding(VOCABULARY, width)(inputs)
    tensor = layers.Dense(256, activation="relu")(tensor)
    return inputs, layers.Dense(64)(tensor)


def two_tower(configuration: Configuration, width: int = 128) -> Any:
    user, user_vector = _tower("user", width)
    item, item_vector = _tower("item", width)
    outputs = layers.Dot(axes=1)([user_vector, item_vector])
    return compile_model(keras.Model([user, item], outputs), configuration, "mse")


def dlrm(configuration: Configuration, tables: int = 8, width: int = 32) -> Any:
    """Dense features and embeddings are combined by all their pairwise products."""
    dense = keras.Input((13,))
    vector = layers.Dense(width, activation="relu")(layers.Dense(128, activation="relu")(dense))
    categories = [keras.Input((), dtype="int32") for _ in range(tables)]
    vectors = [vector] + [layers.Embedding(VOCABULARY, width)(entry) for entry in categories]
    stacked = layers.Concatenate(axis=1)([layers.Reshape((1, width))(entry) for entry in vectors])
    products = layers.Flatten()(layers.Dot(axes=2)([stacked, stacked]))
    tensor = layers.Concatenate()([vector, products])
    tensor = layers.Dense(256, activation="relu")(tensor)
    outputs = layers.Dense(1, activation="sigmoid")(tensor)
    model = keras.Model([dense, *categories], outputs)
    return compile_model(model, configuration, "binary_crossentropy", metrics=["auc"])


def wide_and_deep(configuration: Configuration, bags: int = 12) -> Any:
    words = keras.Input((bags,), dtype="int32")
    dense = keras.Input((32,))
    wide = layers.Flatten()(layers.Embedding(VOCABULARY, 1)(words))
    deep = layers.Flatten()(layers.Embedding(VOCABULARY, 64)(words))
    deep = layers.Concatenate()([deep, dense])
    for units in (512, 256, 128):
        deep = layers.Dropout(0.1)(layers.Dense(units, activation="relu")(deep))
    outputs = layers.Dense(1, activation="sigmoid")(layers.Concatenate()([wide, deep]))
    return compile_model(keras.Model([words, dense], outputs), configuration, "binary_crossentropy")


def text_cnn(configuration: Configuration, length: int = 200) -> Any:
    words = keras.Input((length,), dtype="int32")
    tensor = layers.Embedding(VOCABULARY, 128)(words)
    pooled = [layers.GlobalMaxPooling1D()(layers.Conv1D(128, size, activation="relu")(tensor)) for size in (3, 4, 5)]
    tensor = layers.Dropout(0.5)(layers.Concatenate()(pooled))
    outputs = layers.Dense(CLASSES, activation="softmax")(tensor)
    return compile_model(keras.Model(words, outputs), configuration, SPARSE, metrics=["accuracy"])


BUILDERS = {
    "two_tower": two_tower,
    "dlrm": dlrm,
    "wide_and_deep": wide_and_deep,
    "text_cnn": text_cnn,
}
