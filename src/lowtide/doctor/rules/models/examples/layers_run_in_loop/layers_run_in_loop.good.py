import keras
import tensorflow as tf

x = inputs = keras.Input((100,))
for _ in range(500):
    x = keras.layers.Dense(100)(x)
model = keras.Model(inputs, x)

layers = [keras.layers.Dense(100) for _ in range(500)]
y = tf.random.normal((32, 100))
for layer in layers:
    y = layer(y)


def block(tensor, depth):
    """What tensor is depends on the caller."""
    for _ in range(depth):
        tensor = keras.layers.Dense(8)(tensor)
    return tensor


z = tf.ones((4, 4))
for _ in range(3):
    z = keras.layers.Dense(4)(z)
