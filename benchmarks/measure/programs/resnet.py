"""ResNet50 on small images, with `fit`."""

import keras
import numpy as np
from steps import Batches, StepLog, read_options

BATCH = 8

options = read_options()
model = keras.applications.ResNet50(weights=None, input_shape=(96, 96, 3), classes=10)
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=options.xla)


def make_batch():
    return np.random.rand(BATCH, 96, 96, 3).astype("float32"), np.random.randint(0, 10, BATCH).astype("int32")


model.fit(Batches(make_batch, options.steps), callbacks=[StepLog(options)], verbose=0)
