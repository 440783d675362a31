import tensorflow as tf

data = tf.data.Dataset.range(1000).shuffle(1000).batch(32)
total = (
    tf.data.Dataset.range(100)
    .shuffle(buffer_size=2_000)
    .batch(10)
    .unbatch()
    .reduce(tf.constant(0, tf.int64), lambda a, b: a + b)
)
few = tf.data.Dataset.range(1000).batch(32).shuffle(10)
print(int(total), sorted(int(value) for each in data for value in each)[-1], len(list(data)))
