"""Trains with a step that goes on for two minutes after the allocator has refused a request, once.

refused_loop.py RESULT

A loop does so that asks for memory in each of its rounds.
"""

import json
import os
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

result = Path(sys.argv[1])
marker = result.with_suffix(".refused")


def ask_for_all_memory():
    if marker.exists():
        return
    marker.touch()
    limit = int(os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"]) << 20
    try:
        tf.fill([limit // 4], 1.0)
    except tf.errors.ResourceExhaustedError:
        time.sleep(120)


class Model(keras.Model):
    def train_step(self, data):
        with tf.control_dependencies([tf.py_function(ask_for_all_memory, [], [])]):
            return super().train_step(data)


keras.utils.set_random_seed(1)
inputs = keras.Input((8,))
model = Model(inputs, keras.layers.Dense(1)(inputs))
model.compile("sgd", "mse")
x = np.ones((40, 8), "float32")
model.fit(x, x[:, :1], batch_size=8, verbose=0)
result.write_text(json.dumps({"steps": int(model.optimizer.iterations)}))
