"""What a usual training has: validation, checkpoints, a schedule, averaged weights, a cache, a shuffle buffer."""

import json
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import lowtide as lt

x, y = np.random.default_rng(0).random((512, 64), "float32"), np.ones((512, 1), "float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(256).batch(16).prefetch(2)
validation = tf.data.Dataset.from_tensor_slices((x[:64], y[:64])).batch(32)
model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dropout(0.1), keras.layers.Dense(1)]
)
schedule = keras.optimizers.schedules.CosineDecay(0.01, 200)
model.compile(keras.optimizers.Adam(schedule, use_ema=True), "mse", metrics=["mae"])
watch = lt.Watch()
with tempfile.TemporaryDirectory() as folder:
    callbacks = [
        watch,
        keras.callbacks.ModelCheckpoint(str(Path(folder) / "best.keras"), save_best_only=True),
        keras.callbacks.EarlyStopping(patience=20),
        keras.callbacks.CSVLogger(str(Path(folder) / "log.csv")),
    ]
    model.fit(data, validation_data=validation, epochs=4, verbose=0, callbacks=callbacks)
    model.evaluate(validation, verbose=0, callbacks=[watch])
    model.predict(x, verbose=0, callbacks=[watch])

print(json.dumps([finding.as_json() for finding in watch.findings]))
