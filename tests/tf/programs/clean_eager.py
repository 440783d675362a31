"""An eager loop that keeps numbers and not tensors, over data that is cached while it is first read."""

import json

import keras
import tensorflow as tf

import lowtide as lt

model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.01)
data = tf.data.Dataset.range(80).map(lambda _: tf.random.normal((256, 1024))).cache().shuffle(64)
history = []
with lt.Watch() as watch:
    for batch in data:
        x = batch[:8, :32]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        history.append(float(loss))

print(json.dumps([finding.as_json() for finding in watch.findings]))
