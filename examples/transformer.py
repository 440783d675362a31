"""A transformer encoder that classifies texts.

lowtide predict examples/transformer.py:build --batch-size 32
"""

import keras
from keras import layers

WORDS, LENGTH, WIDTH, HEADS, DEPTH = 20_000, 256, 256, 8, 6


def build() -> keras.Model:
    """Return a compiled encoder of six blocks."""
    tokens = keras.Input((LENGTH,), dtype="int32", name="tokens")
    positions = keras.ops.arange(LENGTH)
    x = layers.Embedding(WORDS, WIDTH)(tokens) + layers.Embedding(LENGTH, WIDTH)(positions)
    for block in range(DEPTH):
        x = encode(x, f"block{block}")
    answer = layers.Dense(2, activation="softmax")(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(tokens, answer, name="encoder")
    model.compile(optimizer=keras.optimizers.AdamW(1e-4), loss="sparse_categorical_crossentropy")
    return model


def encode(x, name):
    """Return one block: attention and a feed-forward part, each normalised and added to what came in."""
    seen = layers.LayerNormalization(name=f"{name}_norm1")(x)
    seen = layers.MultiHeadAttention(HEADS, WIDTH // HEADS, dropout=0.1, name=f"{name}_attention")(seen, seen)
    x = layers.Add(name=f"{name}_add1")([x, seen])
    thought = layers.LayerNormalization(name=f"{name}_norm2")(x)
    thought = layers.Dense(4 * WIDTH, activation="gelu", name=f"{name}_expand")(thought)
    thought = layers.Dense(WIDTH, name=f"{name}_contract")(thought)
    return layers.Add(name=f"{name}_add2")([x, thought])
