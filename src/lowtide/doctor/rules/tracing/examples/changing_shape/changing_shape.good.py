import tensorflow as tf


@tf.function
def total(x):
    return tf.reduce_sum(x)


@tf.function(reduce_retracing=True)
def relaxed(x):
    return tf.reduce_sum(x)


@tf.function(input_signature=[tf.TensorSpec((None, 8))])
def signed(x):
    return tf.reduce_sum(x)


def plain(x):
    return tf.reduce_sum(x)


x = tf.ones((100, 8))
for i in range(1, 100):
    total(x[i : i + 10])
    total(x[i])
    relaxed(x[:i])
    signed(x[:i])
    plain(x[:i])
for batch in tf.data.Dataset.from_tensor_slices(x).batch(32):
    total(batch)
for i in range(3):
    total(x[: i + 1])
