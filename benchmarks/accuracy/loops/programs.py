"""Twelve training and inference steps with `while` loops, at batch sizes from 1 to 256."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import layers

from benchmarks.accuracy.architectures.attention import VOCABULARY
from benchmarks.accuracy.architectures.compiling import CLASSES


def _labels(batch: int) -> tf.TensorSpec:
    return tf.TensorSpec((batch,), tf.int32, name="labels")


def _training_step(
    model: Callable[[tf.Tensor], tf.Tensor],
    weights: Sequence[keras.Variable],
    optimizer: keras.optimizers.Optimizer,
    *specs: tf.TensorSpec,
) -> tuple[Any, ...]:
    """Return a step that trains a classifier, and its specs."""
    optimizer.build(weights)

    def step(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(features))
            loss = tf.reduce_mean(losses)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return (tf.function(step), *specs)


def _classifier(
    stack: Sequence[Any], shape: tuple[int, ...], batch: int, optimizer: keras.optimizers.Optimizer
) -> tuple[Any, ...]:
    model = keras.Sequential([keras.Input(shape), *stack, layers.Dense(CLASSES)])
    specs = tf.TensorSpec((batch, *shape)), _labels(batch)
    return _training_step(lambda features: model(features, training=True), model.trainable_variables, optimizer, *specs)


def _two_lstms(batch: int) -> tuple[Any, ...]:
    stack = [layers.LSTM(256, return_sequences=True), layers.LSTM(256)]
    return _classifier(stack, (64, 64), batch, keras.optimizers.RMSprop())


def lstm_1() -> tuple[Any, ...]:
    return _classifier([layers.LSTM(128)], (100, 32), 1, keras.optimizers.Adam())


def lstm_stacked_16() -> tuple[Any, ...]:
    return _two_lstms(16)


def lstm_stacked_128() -> tuple[Any, ...]:
    return _two_lstms(128)


def lstm_reversed_8() -> tuple[Any, ...]:
    """A loop with masked steps, and a second one that runs backwards."""
    stack = [layers.Masking(), layers.LSTM(96, return_sequences=True), layers.LSTM(96, go_backwards=True)]
    return _classifier(stack, (80, 24), 8, keras.optimizers.Adam())


def gru_256() -> tuple[Any, ...]:
    return _classifier([layers.GRU(128)], (48, 64), 256, keras.optimizers.SGD(0.01))


def gru_stacked_32() -> tuple[Any, ...]:
    stack = [layers.GRU(192, return_sequences=True), layers.GRU(128, return_sequences=True), layers.GRU(64)]
    return _classifier(stack, (50, 48), 32, keras.optimizers.Adam())


def bidirectional_lstm_64() -> tuple[Any, ...]:
    stack = [layers.Bidirectional(layers.LSTM(128, return_sequences=True)), layers.Bidirectional(layers.LSTM(96))]
    return _classifier(stack, (40, 64), 64, keras.optimizers.Adam())


def convolutional_lstm_4() -> tuple[Any, ...]:
    stack = [layers.ConvLSTM2D(24, 3, padding="same"), layers.GlobalAveragePooling2D()]
    return _classifier(stack, (12, 32, 32, 3), 4, keras.optimizers.Adam())


def attention_32() -> tuple[Any, ...]:
    """A GRU over embedded tokens, attention over its states, and a second GRU."""
    tokens = keras.Input((60,), dtype="int32")
    states = layers.GRU(128, return_sequences=True)(layers.Embedding(VOCABULARY, 96)(tokens))
    attended = layers.MultiHeadAttention(4, 32)(states, states)
    outputs = layers.Dense(CLASSES)(layers.GRU(96)(layers.Add()([states, attended])))
    model = keras.Model(tokens, outputs)
    specs = tf.TensorSpec((32, 60), tf.int32), _labels(32)
    return _training_step(
        lambda features: model(features, training=True),
        model.trainable_variables,
        keras.optimizers.Adam(),
        *specs,
    )


def while_loop_64(length: int = 40, units: int = 192) -> tuple[Any, ...]:
    """A highway layer applied in `tf.while_loop`; the loop's end is a condition on its counter."""
    weights = [keras.Variable("glorot_uniform", (units, 2 * units)), keras.Variable("glorot_uniform", (units, CLASSES))]
    kernel, head = (weight.value for weight in weights)

    def model(features: tf.Tensor) -> tf.Tensor:
        def body(index: tf.Tensor, hidden: tf.Tensor) -> Any:
            gate, candidate = tf.split(tf.matmul(hidden, kernel), 2, axis=1)
            gate = tf.sigmoid(gate)
            return index + 1, gate * hidden + (1.0 - gate) * tf.nn.gelu(candidate)

        _, hidden = tf.while_loop(lambda index, _: index < length, body, (0, features))
        return tf.matmul(hidden, head)

    specs = tf.TensorSpec((64, units)), _labels(64)
    return _training_step(model, weights, keras.optimizers.SGD(0.01, momentum=0.9), *specs)


def tensor_array_128(length: int = 32, units: int = 128) -> tuple[Any, ...]:
    """A loop that reads one TensorArray and writes another, which is stacked at the end."""
    weights = [keras.Variable("glorot_uniform", (2 * units, units)), keras.Variable("glorot_uniform", (units, CLASSES))]
    kernel, head = (weight.value for weight in weights)

    def model(features: tf.Tensor) -> tf.Tensor:
        rows = tf.TensorArray(tf.float32, length).unstack(tf.transpose(features, (1, 0, 2)))
        written = tf.TensorArray(tf.float32, length)

        def body(index: tf.Tensor, state: tf.Tensor, written: tf.TensorArray) -> Any:
            state = tf.tanh(tf.matmul(tf.concat([rows.read(index), state], axis=1), kernel))
            return index + 1, state, written.write(index, state)

        empty = tf.zeros((tf.shape(features)[0], units))
        _, _, written = tf.while_loop(lambda index, *_: index < length, body, (0, empty, written))
        return tf.matmul(tf.reduce_mean(tf.square(written.stack()), axis=0), head)

    specs = tf.TensorSpec((128, length, units)), _labels(128)
    return _training_step(model, weights, keras.optimizers.Adam(), *specs)


def beam_search_8(length: int = 24, beams: int = 6, vocabulary: int = 3000, units: int = 192) -> tuple[Any, ...]:
    """A decoder that keeps the most probable prefixes; no variable is trained."""
    cell = layers.GRUCell(units)
    cell.build((None, units))
    embedding = keras.Variable("glorot_uniform", (vocabulary, units))
    head = keras.Variable("glorot_uniform", (units, vocabulary))

    def step(context: tf.Tensor) -> tf.Tensor:
        batch = tf.shape(context)[0]
        state = tf.repeat(context, beams, axis=0)
        first = tf.zeros((batch, beams, 1), tf.int32)
        scores = tf.zeros((batch, beams))

        def body(index: tf.Tensor, prefixes: tf.Tensor, scores: tf.Tensor, state: tf.Tensor) -> Any:
            tokens = tf.reshape(prefixes[:, :, -1], (-1,))
            output, (state,) = cell(tf.gather(embedding.value, tokens), [state])
            log_probabilities = tf.nn.log_softmax(tf.matmul(output, head.value))
            total = scores[:, :, None] + tf.reshape(log_probabilities, (batch, beams, vocabulary))
            scores, best = tf.math.top_k(tf.reshape(total, (batch, beams * vocabulary)), beams)
            parents = best // vocabulary
            prefixes = tf.gather(prefixes, parents, batch_dims=1)
            state = tf.reshape(tf.gather(tf.reshape(state, (batch, beams, units)), parents, batch_dims=1), (-1, units))
            prefixes = tf.concat([prefixes, (best % vocabulary)[:, :, None]], axis=2)
            return index + 1, prefixes, scores, state

        shapes = (
            tf.TensorShape(()), tf.TensorShape((8, beams, None)), tf.TensorShape((8, beams)),
            tf.TensorShape((8 * beams, units)),
        )  # fmt: skip
        _, prefixes, _, _ = tf.while_loop(
            lambda index, *_: index < length, body, (0, first, scores, state), shape_invariants=shapes
        )
        return prefixes

    return tf.function(step), tf.TensorSpec((8, units))


PROGRAMS: dict[str, Callable[[], tuple[Any, ...]]] = {
    build.__name__: build
    for build in (
        lstm_1,
        lstm_stacked_16,
        lstm_stacked_128,
        lstm_reversed_8,
        gru_256,
        gru_stacked_32,
        bidirectional_lstm_64,
        convolutional_lstm_4,
        attention_32,
        while_loop_64,
        tensor_array_128,
        beam_search_8,
    )
}


def build(name: str) -> tuple[Any, ...]:
    """Return `(step, *specs)` of a program, with all variables created."""
    keras.utils.set_random_seed(0)
    return PROGRAMS[name]()
