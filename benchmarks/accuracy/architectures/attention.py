"""Transformers for text and images, and a mixer, which has no attention."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from benchmarks.accuracy.architectures.compiling import CLASSES, SPARSE, compile_model
from benchmarks.accuracy.zoo import Configuration

# Integer inputs are drawn below this number, so every embedding table has as many rows.
VOCABULARY = 8000


class Positions(layers.Layer):
    """Adds a learned vector to each position of the sequence."""

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.table = self.add_weight(shape=shape[1:], initializer="uniform", name="table")

    def call(self, inputs: Any) -> Any:
        return inputs + keras.ops.cast(self.table, inputs.dtype)


def _block(tensor: Any, heads: int, causal: bool, dropout: float = 0.1) -> Any:
    width = tensor.shape[-1]
    normal = layers.LayerNormalization()(tensor)
    attended = layers.MultiHeadAttention(heads, width // heads, dropout=dropout)(normal, normal, use_causal_mask=causal)
    tensor = layers.Add()([tensor, layers.Dropout(dropout)(attended)])
    hidden = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(tensor))
    return layers.Add()([tensor, layers.Dropout(dropout)(layers.Dense(width)(hidden))])


def transformer_encoder(configuration: Configuration, length: int = 128, width: int = 256) -> Any:
    inputs = keras.Input((length,), dtype="int32")
    tensor = Positions()(layers.Embedding(VOCABULARY, width)(inputs))
    for _ in range(4):
        tensor = _block(tensor, heads=4, causal=False)
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(tensor))
    outputs = layers.Dense(CLASSES, activation="softmax", dtype="float32")(pooled)
    return compile_model(keras.Model(inputs, outputs), configuration, SPARSE)


def gpt(configuration: Configuration, length: int = 128, width: int = 256) -> Any:
    """A decoder that predicts every next token: the logits are its largest tensors."""
    inputs = keras.Input((length,), dtype="int32")
    tensor = Positions()(layers.Embedding(VOCABULARY, width)(inputs))
    for _ in range(4):
        tensor = _block(tensor, heads=8, causal=True, dropout=0.0)
    logits = layers.Dense(VOCABULARY, dtype="float32")(layers.LayerNormalization()(tensor))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return compile_model(keras.Model(inputs, logits), configuration, loss)


def _patches(image: int, patch: int, width: int) -> tuple[Any, Any]:
    inputs = keras.Input((image, image, 3))
    tensor = layers.Conv2D(width, patch, strides=patch)(inputs)
    return inputs, layers.Reshape((-1, width))(tensor)


def vit(configuration: Configuration, image: int = 128) -> Any:
    inputs, tensor = _patches(image, 8, 192)
    tensor = Positions()(tensor)
    for _ in range(6):
        tensor = _block(tensor, heads=3, causal=False)
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(tensor))
    outputs = layers.Dense(CLASSES, activation="softmax", dtype="float32")(pooled)
    return compile_model(keras.Model(inputs, outputs), configuration, SPARSE, metrics=["accuracy"])


def mixer(configuration: Configuration, image: int = 96) -> Any:
    inputs, tensor = _patches(image, 8, 192)
    tokens = tensor.shape[1]
    for _ in range(6):
        turned = layers.Permute((2, 1))(layers.LayerNormalization()(tensor))
        turned = layers.Dense(tokens)(layers.Dense(2 * tokens, activation="gelu")(turned))
        tensor = layers.Add()([tensor, layers.Permute((2, 1))(turned)])
        hidden = layers.Dense(768, activation="gelu")(layers.LayerNormalization()(tensor))
        tensor = layers.Add()([tensor, layers.Dense(192)(hidden)])
    outputs = layers.Dense(CLASSES, activation="softmax")(layers.GlobalAveragePooling1D()(tensor))
    return compile_model(keras.Model(inputs, outputs), configuration, SPARSE)


BUILDERS = {
    "transformer_encoder": transformer_encoder,
    "gpt": gpt,
    "vit": vit,
    "mixer": mixer,
}
