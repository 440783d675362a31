import keras
import numpy as np
import tensorflow as tf
from tensorflow.keras import losses as keras_losses

model = keras.Sequential([keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
loss_fn = keras_losses.MeanSquaredError()
dataset = tf.data.Dataset.from_tensor_slices((np.zeros((64, 4)), np.zeros((64, 1)))).batch(8)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


history = []
for epoch in range(20):
    for x, y in dataset:
        loss = train_step(x, y)
        history.append(loss)  # bad

losses = {}
for step, (x, y) in enumerate(dataset.repeat()):
    losses[step] = train_step(x, y)  # bad


def train(data, epochs):
    collected = []
    for _ in range(epochs):
        for inputs, targets in data:
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(tf.square(model(inputs) - targets))
            gradients = tape.gradient(value, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            collected.append(value)  # bad
    return collected


def full_gradient(train_ds):
    all_gradients = []
    for inputs, targets in train_ds:
        with tf.GradientTape() as tape:
            value = loss_fn(targets, model(inputs))
        all_gradients.append(tape.gradient(value, model.trainable_variables))  # bad
    return [tf.reduce_mean(each, 0) for each in zip(*all_gradients)]


recorded = []


def one_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), model.weights))
    recorded.append(loss)  # bad


class Trainer:
    def __init__(self):
        self.losses = []

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            predictions = model(x)
            loss = loss_fn(y, predictions)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), model.weights))
        return loss, predictions

    def fit(self, data):
        for x, y in data:
            loss, _ = self.step(x, y)
            self.losses.append(loss)  # bad
