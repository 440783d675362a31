"""A shuffle buffer of batches: what fills the memory is made by a line that reads another line's mistake."""

import tensorflow as tf

rows = tf.data.Dataset.range(1_000_000).map(lambda number: tf.fill([8192], tf.cast(number, tf.float32)))
batches = rows.batch(32).shuffle(4096)
total = 0.0
for batch in batches:
    total += float(tf.reduce_sum(batch))
