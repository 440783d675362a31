"""A pipeline as tutorials show it, which holds far more than it needs.

lowtide predict examples/pipeline.py:build --batch-size 64 --budget 1GiB
"""

import tensorflow as tf


def prepare(number):
    """Make an image of a number, as decoding a file would."""
    image = tf.fill((256, 256, 3), tf.cast(number % 256, tf.uint8))
    return tf.image.resize(image, (224, 224)) / 255.0, number % 10


def build(batch_size=32):
    """Shuffle images after they were decoded, and have many batches ready."""
    images = tf.data.Dataset.range(50_000).map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
    return images.shuffle(2_000).batch(batch_size).prefetch(8)
