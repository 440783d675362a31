import keras
import tensorflow as tf

keras.mixed_precision.set_global_policy("mixed_bfloat16")
model = keras.Sequential([keras.layers.Dense(64), keras.layers.Dense(1, dtype="float32")])
optimizer = keras.optimizers.Adam()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss
