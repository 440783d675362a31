"""A distribution strategy over one device."""

import keras
import tensorflow as tf
from step_peaks import StepPeaks

strategy = tf.distribute.MirroredStrategy(["CPU:0"])
with strategy.scope():
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(512, name="wide"), keras.layers.Dense(4)])
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)


def one(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def step(x):
    return strategy.run(one, args=(x,))


x = tf.random.uniform((64, 32))
peaks = StepPeaks()
for _ in range(14):
    with peaks:
        loss = step(x)
peaks.print()
