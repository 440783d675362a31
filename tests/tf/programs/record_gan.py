"""Two functions make one step: one for each of two networks."""

import keras
import tensorflow as tf
from step_peaks import StepPeaks


def network(name, width, output):
    return keras.Sequential(
        [
            keras.Input((width,)),
            keras.layers.Dense(256, activation="relu", name=f"{name}_hidden"),
            keras.layers.Dense(output, name=f"{name}_out"),
        ],
        name=name,
    )


generator, critic = network("generator", 16, 64), network("critic", 64, 1)
optimizers = [keras.optimizers.Adam(), keras.optimizers.SGD()]
optimizers[0].build(generator.trainable_variables)
optimizers[1].build(critic.trainable_variables)


@tf.function
def teach_critic(real, noise):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(critic(generator(noise))) - tf.reduce_mean(critic(real))
    gradients = tape.gradient(loss, critic.trainable_variables)
    optimizers[1].apply_gradients(zip(gradients, critic.trainable_variables, strict=True))
    return loss


@tf.function
def teach_generator(noise):
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(critic(generator(noise)))
    gradients = tape.gradient(loss, generator.trainable_variables)
    optimizers[0].apply_gradients(zip(gradients, generator.trainable_variables, strict=True))
    return loss


real, noise = tf.random.uniform((64, 64)), tf.random.normal((64, 16))
peaks = StepPeaks()
for _ in range(14):
    with peaks:
        critic_loss = teach_critic(real, noise)
        generator_loss = teach_generator(noise)
peaks.print()
