"""ResNet50 on small images, with `fit`."""

import keras
import numpy as np
from steps import StepLog, read_options

BATCH = 8

options = read_options()
model = keras.applications.ResNet50(weights=None, input_shape=(96, 96, 3), classes=10)
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=options.xla)

rows = BATCH * options.steps
images = np.random.rand(rows, 96, 96, 3).astype("float32")
labels = np.random.randint(0, 10, rows).astype("int32")
model.fit(images, labels, batch_size=BATCH, callbacks=[StepLog(options)], verbose=0)
