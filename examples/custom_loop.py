"""A training loop written by hand: a tf.function, and specs that leave the batch open.

lowtide predict examples/custom_loop.py:build --batch-size 128
"""

import keras
import tensorflow as tf
from keras import layers


def build():
    """Return the training step and the specs of its inputs."""
    model = keras.Sequential(
        [
            keras.Input((64, 64, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(128, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)
    measure_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            loss = measure_loss(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    return train_step, tf.TensorSpec((None, 64, 64, 3), tf.float32), tf.TensorSpec((None,), tf.int32)
