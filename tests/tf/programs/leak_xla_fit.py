"""A compiled Keras model whose batches have ever new sizes: Keras traces twice, XLA compiles each time."""

import json

import keras
import numpy as np
import tensorflow as tf

import lowtide as lt


def batches():
    for size in range(18):
        yield np.ones((size + 4, 4), "float32"), np.ones((size + 4, 1), "float32")


specs = (tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1)))
data = tf.data.Dataset.from_generator(batches, output_signature=specs)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=True)
watch = lt.Watch(every=1)
model.fit(data, verbose=0, shuffle=False, callbacks=[watch])

print(json.dumps([finding.as_json() for finding in watch.findings]))
