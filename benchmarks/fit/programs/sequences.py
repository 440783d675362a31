"""A deep transformer with dropout, an unrolled LSTM, and a deep stack of dense layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from benchmarks.fit.programs.images import CLASSES, compile_model

# Integer inputs are drawn below this number.
VOCABULARY = 1000


def _attention_block(tensor: Any, heads: int, number: int, dropout: float = 0.1) -> Any:
    width = tensor.shape[-1]
    normal = layers.LayerNormalization()(tensor)
    attended = layers.MultiHeadAttention(heads, width // heads, dropout=dropout)(normal, normal)
    tensor = layers.Add()([tensor, layers.Dropout(dropout)(attended)])
    hidden = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(tensor))
    return layers.Add(name=f"block{number}")([tensor, layers.Dropout(dropout)(layers.Dense(width)(hidden))])


def transformer24(length: int = 64, width: int = 128) -> keras.Model:
    inputs = keras.Input((length,), dtype="int32")
    tensor = layers.Embedding(VOCABULARY, width)(inputs)
    for number in range(24):
        tensor = _attention_block(tensor, 4, number)
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(tensor))
    outputs = layers.Dense(CLASSES, activation="softmax")(pooled)
    return compile_model(keras.Model(inputs, outputs), optimizer=keras.optimizers.Adam(1e-4))


def lstm(length: int = 24, features: int = 64, units: int = 192, depth: int = 4) -> keras.Model:
    """Every time step is there in the graph: a loop would be one node."""
    inputs = tensor = keras.Input((length, features))
    for number in range(depth):
        last = number == depth - 1
        tensor = layers.LSTM(units, return_sequences=not last, unroll=True, name=f"block{number}")(tensor)
    return compile_model(keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(tensor)))


def mlp(depth: int = 24, width: int = 256) -> keras.Model:
    inputs = tensor = keras.Input((width,))
    for index in range(depth):
        tensor = layers.Dense(width, activation="relu", name=f"layer{index}")(tensor)
    return compile_model(keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(tensor)))


BUILDERS: dict[str, Callable[[], Any]] = {"transformer24": transformer24, "lstm": lstm, "mlp": mlp}
