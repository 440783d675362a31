import tensorflow as tf
from tensorflow import keras


@tf.function(jit_compile=True)
def total(x):
    return tf.reduce_sum(x)


x = tf.ones((100, 8))
for i in range(0, 100, 10):
    total(x[i : i + 10])

sentences = tf.data.TextLineDataset("text").map(tf.strings.bytes_split)
for batch in sentences.padded_batch(32, padded_shapes=[512]):
    total(batch)

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=True)
model.fit(sentences.padded_batch(32, padded_shapes=[512]).prefetch(1))
plain = keras.Sequential([keras.layers.Dense(1)])
plain.compile("adam", "mse")
plain.fit(sentences.padded_batch(32).prefetch(1))
