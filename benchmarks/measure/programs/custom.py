"""A convolutional network in a training loop written by hand."""

import keras
import tensorflow as tf
from keras import layers
from steps import StepLog, read_options

BATCH = 128

options = read_options()
model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(100),
    ]
)
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)
compute_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function(jit_compile=options.xla)
def train_step(images, labels):
    with tf.GradientTape() as tape:
        loss = compute_loss(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


log = StepLog(options)
for _ in range(options.steps):
    images = tf.random.normal((BATCH, 32, 32, 3))
    labels = tf.random.uniform((BATCH,), 0, 100, tf.int32)
    log.begin()
    train_step(images, labels)
    log.end()
log.save()
