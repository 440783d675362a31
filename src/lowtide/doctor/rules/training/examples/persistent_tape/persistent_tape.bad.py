import numpy as np
import tensorflow as tf
from tensorflow import GradientTape, keras

generator = keras.Sequential([keras.layers.Dense(8)])
critic = keras.Sequential([keras.layers.Dense(1)])
first = keras.optimizers.Adam()
second = keras.optimizers.Adam()


def train_step(x):
    with tf.GradientTape(persistent=True) as tape:  # bad
        loss = tf.reduce_mean(generator(x))
    gradients = tape.gradient(loss, generator.trainable_variables)
    first.apply_gradients(zip(gradients, generator.trainable_variables))


class Attack:
    def perturb(self, image):
        with GradientTape(watch_accessed_variables=False, persistent=True) as tape:  # bad
            tape.watch(image)
            score = critic(image)
        return tf.sign(tape.gradient(score, image))


for step in range(100):
    x = np.zeros((64, 8), "float32")
    with tf.GradientTape(persistent=True) as tape:  # bad
        made = generator(x)
        loss = tf.reduce_mean(critic(made))
    first.apply_gradients(zip(tape.gradient(loss, generator.trainable_variables), generator.trainable_variables))
    second.apply_gradients(zip(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables))

for batch in tf.data.Dataset.range(1000).batch(64):
    print(generator(tf.cast(batch, "float32")[:, None]))
