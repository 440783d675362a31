import keras
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

model = models.Sequential([keras.Input((4,)), layers.Dense(2)])
state, done = np.zeros((1, 4)), False
while not done:
    action = np.argmax(model.predict(state, verbose=0))  # bad
    done = action > 0

x_test = np.load("x_test.npy")
for x in x_test:
    model.predict(x[None])  # bad
answers = [model.predict(x_test[i : i + 1]) for i in range(len(x_test))]  # bad
for batch, labels in tf.data.TFRecordDataset(["a.tfrecord"]).batch(32):
    model.predict(batch)  # bad


class Agent:
    def __init__(self, network):
        self.network = network

    def play(self, steps):
        for _ in range(steps):
            self.network.predict(np.zeros((1, 4)), verbose=0)  # bad


class Writer(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        tokens = [1]
        while len(tokens) < 100:
            tokens.append(int(np.argmax(self.model.predict(np.array([tokens])))))  # bad
