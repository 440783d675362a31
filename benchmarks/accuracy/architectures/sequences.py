"""Recurrent networks and convolutions over one axis."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from benchmarks.accuracy.architectures.compiling import CLASSES, SPARSE, compile_model
from benchmarks.accuracy.zoo import Configuration


def _recurrent(configuration: Configuration, stack: list[Any], length: int, features: int) -> Any:
    inputs = tensor = keras.Input((length, features))
    for layer in stack:
        tensor = layer(tensor)
    outputs = layers.Dense(CLASSES, activation="softmax")(tensor)
    return compile_model(keras.Model(inputs, outputs), configuration, SPARSE)


def gru(configuration: Configuration, length: int = 60) -> Any:
    stack = [layers.GRU(256, return_sequences=True), layers.GRU(256)]
    return _recurrent(configuration, stack, length, 64)


def lstm(configuration: Configuration, length: int = 60) -> Any:
    stack = [layers.LSTM(256, return_sequences=True), layers.LSTM(256)]
    return _recurrent(configuration, stack, length, 64)


def lstm_unrolled(configuration: Configuration, length: int = 20) -> Any:
    stack = [layers.LSTM(256, return_sequences=True, unroll=True), layers.LSTM(256, unroll=True)]
    return _recurrent(configuration, stack, length, 64)


def bidirectional_gru(configuration: Configuration, length: int = 40) -> Any:
    stack = [
        layers.Conv1D(128, 5, activation="relu"),
        layers.Bidirectional(layers.GRU(128, return_sequences=True)),
        layers.Bidirectional(layers.GRU(128)),
    ]
    return _recurrent(configuration, stack, length, 64)


def wavenet(configuration: Configuration, length: int = 1024) -> Any:
    """Dilated, gated convolutions whose skip connections are summed at the end."""
    inputs = keras.Input((length, 1))
    tensor = layers.Conv1D(32, 1)(inputs)
    skips = []
    for dilation in (1, 2, 4, 8, 16, 32, 64, 128):
        shared = {"dilation_rate": dilation, "padding": "causal"}
        signal = layers.Conv1D(32, 2, activation="tanh", **shared)(tensor)
        gate = layers.Conv1D(32, 2, activation="sigmoid", **shared)(tensor)
        gated = layers.Multiply()([signal, gate])
        skips.append(layers.Conv1D(32, 1)(gated))
        tensor = layers.Add()([tensor, layers.Conv1D(32, 1)(gated)])
    summed = layers.ReLU()(layers.Add()(skips))
    outputs = layers.Conv1D(64, 1, activation="softmax")(summed)
    return compile_model(keras.Model(inputs, outputs), configuration, SPARSE)


BUILDERS = {
    "gru": gru,
    "lstm": lstm,
    "lstm_unrolled": lstm_unrolled,
    "bidirectional_gru": bidirectional_gru,
    "wavenet": wavenet,
}
