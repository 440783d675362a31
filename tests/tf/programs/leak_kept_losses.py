"""A trainer that appends every loss, as a tensor, to its history."""

import json

import keras
import tensorflow as tf

import lowtide as lt


class Trainer:
    def __init__(self):
        self.model = keras.Sequential(
            [keras.Input((32,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)]
        )
        self.optimizer = keras.optimizers.Adam()
        self.optimizer.build(self.model.trainable_variables)
        self.history = {"loss": []}

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return loss

    def train(self, steps):
        for _ in range(steps):
            self.history["loss"].append(self.step(tf.ones((8, 32)), tf.ones((8, 1))))


trainer = Trainer()
with lt.Watch() as watch:
    trainer.train(60)

print(json.dumps([finding.as_json() for finding in watch.findings]))
