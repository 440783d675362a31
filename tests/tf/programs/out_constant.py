"""An oversized constant: a whole set of images as one tensor, and once more."""

import keras
import numpy as np
import tensorflow as tf

images = np.ones((3000, 64, 64, 3), "float32")
model = keras.Sequential([keras.Input((64, 64, 3)), keras.layers.Flatten(), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
train = tf.constant(images)
test = tf.constant(images)
model.fit(train, tf.zeros([3000], tf.int32), batch_size=32, verbose=0)
