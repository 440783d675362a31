import keras
import tensorflow as tf
from tensorflow.keras import layers

model = keras.Sequential([keras.layers.Dense(1)])
loss_fn = keras.losses.MeanSquaredError()
optimizer = keras.optimizers.Adam()
accuracy = keras.metrics.MeanSquaredError()


@tf.function
def step(x, y):
    # A loss has no variables.
    error = keras.losses.MeanSquaredError()
    with tf.GradientTape() as tape:
        loss = error(y, layers.ReLU()(model(x)))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    accuracy.update_state(y, model(x))


class Block(layers.Layer):
    def __init__(self):
        super().__init__()
        self.conv = layers.Conv2D(16, 3)
        self.dense = None

    def build(self, shape):
        self.norm = layers.LayerNormalization()

    def call(self, x):
        if self.dense is None:
            self.dense = layers.Dense(4)
        return self.norm(self.dense(self.conv(x)))


def build_model(depth):
    x = inputs = keras.Input((4,))
    for _ in range(depth):
        x = layers.Dense(4)(x)
    return keras.Model(inputs, x)


def train(dataset, rate):
    optimizer = keras.optimizers.Adam(rate)
    for epoch in range(10):
        mean = keras.metrics.Mean()
        for x, y in dataset:
            with tf.GradientTape() as tape:
                loss = loss_fn(y, model(x))
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            mean.update_state(loss)
        print(mean.result())


def search(dataset):
    for rate in (0.1, 0.01, 0.001):
        train(dataset, rate)


class Net(keras.Model):
    def train_step(self, data):
        x, y = data
        if not hasattr(self, "tracker"):
            self.tracker = keras.metrics.Mean()
        return {"loss": self.tracker(y)}
