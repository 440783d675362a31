import tensorflow as tf

one = tf.data.Dataset.range(100).batch(32).prefetch(tf.data.AUTOTUNE)
two = (
    tf.data.Dataset.range(100)
    .batch(32, drop_remainder=True)
    .prefetch(buffer_size=tf.data.AUTOTUNE)
)
three = tf.data.Dataset.range(100).batch(32).prefetch(1)
print([int(tf.reduce_sum(each)) for dataset in (one, two, three) for each in dataset])
