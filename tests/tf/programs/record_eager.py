"""Steps that run op by op: of Keras layers, or of plain ops with two tapes for each update."""

import sys

import keras
import tensorflow as tf

kind, batch = sys.argv[1], int(sys.argv[2])
images = tf.random.normal([batch, 32, 32, 3])
labels = tf.random.uniform([batch], 0, 10, tf.int32)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam()


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = keras.layers.Conv2D(32, 3, padding="same", activation="relu", name="first")
        self.norm = keras.layers.BatchNormalization(name="norm")
        self.second = keras.layers.Conv2D(32, 3, padding="same", activation="gelu", name="second")
        self.head = keras.layers.Dense(10, name="head")

    def call(self, x, training=False):
        x = self.norm(self.first(x), training=training)
        x = self.second(x)
        return self.head(tf.reduce_mean(x, [1, 2]))


model = Net()


def layers_step():
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


kernel = tf.Variable(tf.random.normal([3, 3, 3, 64], stddev=0.1))
matrix = tf.Variable(tf.random.normal([64, 10], stddev=0.1))


def ops_step():
    total = None
    for _ in range(2):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME"))  # the line of the forward pass
            loss = loss_of(labels, tf.reduce_mean(hidden, [1, 2]) @ matrix)
        found = tape.gradient(loss, [kernel, matrix])
        total = found if total is None else [each + other for each, other in zip(found, total, strict=True)]
    optimizer.apply_gradients(zip(total, [kernel, matrix], strict=True))


def call():
    """No step at all."""
    model(images)


for step in range(1, 15):
    tf.config.experimental.reset_memory_stats("CPU:0")
    {"layers": layers_step, "ops": ops_step, "call": call}[kind]()
    print("peak", step, tf.config.experimental.get_memory_info("CPU:0")["peak"], flush=True)
