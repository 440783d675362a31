"""fit with batches whose size the model leaves open, an evaluation before it, and validation between the epochs."""

import keras
import tensorflow as tf
from step_peaks import StepPeaks

BATCH = 48


class Around(keras.callbacks.Callback):
    """A callback that records the peak of each batch."""

    def __init__(self):
        super().__init__()
        self.peaks = StepPeaks()

    def on_train_batch_begin(self, batch, logs=None):
        self.peaks.__enter__()

    def on_train_batch_end(self, batch, logs=None):
        self.peaks.__exit__()


inputs = keras.Input((64,))
hidden = keras.layers.Dense(256, activation="relu", name="wide")(inputs)
outputs = keras.layers.Dense(10, name="head")(hidden)
model = keras.Model(inputs, outputs)
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = tf.data.Dataset.from_tensors((tf.zeros((BATCH, 64)), tf.zeros((BATCH,), tf.int32))).repeat(7)
around = Around()
# As many steps as a training takes to settle.
model.evaluate(data.repeat(2), verbose=0)
model.fit(data, epochs=3, validation_data=data.take(2), verbose=0, callbacks=[around])
around.peaks.print(batch=BATCH)
