import tensorflow as tf
from tensorflow import keras


@tf.function(jit_compile=True)
def total(x):
    return tf.reduce_sum(x)


x = tf.ones((100, 8))
for i in range(1, 100):
    total(x[:i])  # bad

sentences = tf.data.TextLineDataset("text").map(tf.strings.bytes_split)
for batch in sentences.padded_batch(32):
    total(batch)  # bad

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=True)
model.fit(sentences.padded_batch(32, padded_shapes=[None]).prefetch(1))  # bad
