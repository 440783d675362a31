"""A loop by hand: losses of one epoch as tensors, a replay buffer with a limit, two networks."""

import json
from collections import deque

import keras
import tensorflow as tf

import lowtide as lt

actor = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="gelu"), keras.layers.Dense(1)])
critic = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
optimizers = {id(model): keras.optimizers.Adam() for model in (actor, critic)}
mean = keras.metrics.Mean()
replay = deque(maxlen=500)


def make_step(model):
    @tf.function
    def step(x, y, training=True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=training) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizers[id(model)].apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step


act, criticise = make_step(actor), make_step(critic)
averages = []
with lt.Watch() as watch:
    for _epoch in range(5):
        losses = []
        for _ in range(20):
            x = tf.random.normal((8, 16))
            replay.append((x, x[:, :1]))
            losses.append(act(x, x[:, :1]))
            losses.append(criticise(*replay[0]))
            mean.update_state(losses[-1])
            watch.step()
        averages.append(tf.reduce_mean(losses))

print(json.dumps([finding.as_json() for finding in watch.findings]))
