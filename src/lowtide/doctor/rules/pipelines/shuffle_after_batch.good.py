import random

import tensorflow as tf

data = tf.data.Dataset.range(1000).shuffle(100).batch(32)
windows = tf.data.Dataset.range(1000).batch(32).unbatch().shuffle(100)
sequences = tf.data.Dataset.range(1000).batch(101, drop_remainder=True).shuffle(100)
training = sequences.batch(64)
cards = list(range(52))
random.shuffle(cards)
