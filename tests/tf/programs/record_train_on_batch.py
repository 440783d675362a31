"""train_on_batch, with the policy that is given."""

import sys

import keras
import tensorflow as tf
from step_peaks import StepPeaks

keras.config.set_dtype_policy(sys.argv[1])
model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(16, 3, padding="same", activation="relu", name="first"),
        keras.layers.Conv2D(16, 3, padding="same", activation="relu", name="second"),
        keras.layers.GlobalAveragePooling2D(name="pool"),
        keras.layers.Dense(10, dtype="float32", name="head"),
    ]
)
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x, y = tf.random.uniform((16, 32, 32, 3)), tf.zeros((16,), tf.int32)
peaks = StepPeaks()
for _ in range(14):
    with peaks:
        model.train_on_batch(x, y)
peaks.print(batch=16)
