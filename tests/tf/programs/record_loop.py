"""A loop of one's own: compiled by XLA, in a graph, one op after the other, or with only the way forward in a graph."""

import sys

import keras
import tensorflow as tf
from step_peaks import StepPeaks

mode = sys.argv[1]
model = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(512, activation="gelu", name="wide"),
        keras.layers.Dense(512, activation="gelu", name="deep"),
        keras.layers.Dense(10, name="head"),
    ]
)
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)


def forward(x):
    return model(x, training=True)


def step(x, y):
    with tf.GradientTape() as tape:
        logits = forward(x)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


if mode == "tape":
    forward = tf.function(forward)
elif mode != "eager":
    step = tf.function(step, jit_compile=mode == "xla")
x, y = tf.random.uniform((128, 64)), tf.zeros((128,), tf.int32)
peaks = StepPeaks()
for _ in range(14):
    with peaks:
        loss = step(x, y)
peaks.print(batch=128)
