"""A GAN: two models and two optimizers in one step, for a batch size that the builder is given.

lowtide predict examples/gan.py:build --batch-size 64
"""

import keras
import tensorflow as tf
from keras import layers

NOISE = 100


def build(batch_size: int = 64):
    """Return the training step and the spec of the real images."""
    generator, discriminator = make_generator(), make_discriminator()
    generator_optimizer = keras.optimizers.Adam(2e-4, beta_1=0.5)
    discriminator_optimizer = keras.optimizers.Adam(2e-4, beta_1=0.5)
    generator_optimizer.build(generator.trainable_variables)
    discriminator_optimizer.build(discriminator.trainable_variables)
    judge = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def train_step(images):
        noise = tf.random.normal((tf.shape(images)[0], NOISE))
        with tf.GradientTape() as generator_tape, tf.GradientTape() as discriminator_tape:
            faked = generator(noise, training=True)
            on_real, on_faked = discriminator(images, training=True), discriminator(faked, training=True)
            generator_loss = judge(tf.ones_like(on_faked), on_faked)
            discriminator_loss = judge(tf.ones_like(on_real), on_real) + judge(tf.zeros_like(on_faked), on_faked)
        for tape, loss, model, optimizer in (
            (generator_tape, generator_loss, generator, generator_optimizer),
            (discriminator_tape, discriminator_loss, discriminator, discriminator_optimizer),
        ):
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return generator_loss, discriminator_loss

    return train_step, tf.TensorSpec((batch_size, 28, 28, 1), tf.float32)


def make_generator() -> keras.Model:
    """Return the model that turns noise into images."""
    return keras.Sequential(
        [
            keras.Input((NOISE,)),
            layers.Dense(7 * 7 * 128),
            layers.LeakyReLU(),
            layers.Reshape((7, 7, 128)),
            layers.Conv2DTranspose(64, 5, strides=2, padding="same"),
            layers.BatchNormalization(),
            layers.LeakyReLU(),
            layers.Conv2DTranspose(1, 5, strides=2, padding="same", activation="tanh"),
        ],
        name="generator",
    )


def make_discriminator() -> keras.Model:
    """Return the model that distinguishes real images from generated ones."""
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(64, 5, strides=2, padding="same"),
            layers.LeakyReLU(),
            layers.Dropout(0.3),
            layers.Conv2D(128, 5, strides=2, padding="same"),
            layers.LeakyReLU(),
            layers.Flatten(),
            layers.Dense(1),
        ],
        name="discriminator",
    )
