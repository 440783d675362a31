import keras
import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.optimizers import Adam

model = keras.Sequential([keras.layers.Dense(1)])
loss_fn = keras.losses.MeanSquaredError()


@tf.function
def measured_step(x, y):
    accuracy = tf.keras.metrics.MeanSquaredError()  # bad
    accuracy.update_state(y, model(x))
    return accuracy.result()


@tf.function
def step(x, y):
    optimizer = Adam(1e-3)  # bad
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


class Block(layers.Layer):
    def call(self, x):
        x = layers.Conv2D(16, 3)(x)  # bad
        return layers.ReLU()(x)


class Model(keras.Model):
    def train_step(self, data):
        loss_tracker = keras.metrics.Mean(name="loss")  # bad
        loss_tracker.update_state(0.0)
        return {"loss": loss_tracker.result()}


def train(dataset):
    for x, y in dataset:
        optimizer = keras.optimizers.Adam()  # bad
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


def encode(dataset):
    for x, _ in dataset:
        dense = layers.Dense(64)  # bad
        yield dense(x)


def update(x, y):
    optimizer = keras.optimizers.RMSprop()  # bad
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


for x, y in tf.data.Dataset.from_tensor_slices((tf.ones((8, 4)), tf.ones((8, 1)))).batch(4):
    update(x, y)
