"""A model that reports the labels that it is trained on, and an error that ends a training early."""

import keras
import tensorflow as tf


class LabelRecorder(keras.Model):
    """A model that calls `report` with the labels of each batch it is trained on."""

    def __init__(self, report):
        super().__init__()
        self.flatten, self.dense, self.report = keras.layers.Flatten(), keras.layers.Dense(1), report

    def call(self, x):
        return self.dense(self.flatten(x))

    def train_step(self, data):
        tf.py_function(lambda numbers: self.report(numbers.numpy().tolist()), [data[1]], [])
        return super().train_step(data)


class TrainingEnded(Exception):
    """Raised by a test in the middle of a training."""
