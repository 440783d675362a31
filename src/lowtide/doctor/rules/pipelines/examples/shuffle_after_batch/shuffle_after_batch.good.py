import random

import tensorflow as tf

data = tf.data.Dataset.range(1000).shuffle(100).batch(32)
windows = tf.data.Dataset.range(1000).batch(32).unbatch().shuffle(100)
sequences = tf.data.Dataset.range(1000).batch(101, drop_remainder=True).shuffle(100)
training = sequences.batch(64)
cards = list(range(52))
random.shuffle(cards)

# Sequences of 101 characters are the samples; the second call of batch makes the batches.
characters = tf.data.Dataset.range(10_000).batch(101, drop_remainder=True)
pairs = characters.map(lambda each: (each[:-1], each[1:]))
pairs = pairs.shuffle(100).batch(8)

single = tf.data.Dataset.range(1000).batch(1).shuffle(100)
