import tensorflow as tf

one = tf.data.Dataset.range(100).prefetch(tf.data.AUTOTUNE).batch(32)
two = (
    tf.data.Dataset.range(100)
    .prefetch(buffer_size=1000)
    .batch(32, drop_remainder=True)
)
three = tf.data.Dataset.range(100).prefetch(1).batch(32)
print([int(tf.reduce_sum(each)) for dataset in (one, two, three) for each in dataset])
