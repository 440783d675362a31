"""`fit` with a compiled step, on arrays that TensorFlow uses without a copy: the allocator never sees a batch."""

import keras
import numpy as np
from step_peaks import StepPeaks

STEPS, BATCH = 14, 48


def aligned(shape):
    """TensorFlow copies what does not lie at a multiple of 64."""
    size = int(np.prod(shape))
    memory = np.zeros(size + 16, "float32")
    first = -memory.ctypes.data % 64 // 4
    return memory[first : first + size].reshape(shape)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        return aligned((BATCH, 100)), aligned((BATCH, 10))


model = keras.Sequential(
    [keras.Input((100,)), keras.layers.Dense(2000, activation="relu", name="wide"), keras.layers.Dense(10, name="head")]
)
model.compile("adam", "mse", jit_compile=True)
peaks = StepPeaks()
around = keras.callbacks.LambdaCallback(
    on_train_batch_begin=lambda batch, logs: peaks.__enter__(), on_train_batch_end=lambda batch, logs: peaks.__exit__()
)
model.fit(Batches(), verbose=0, callbacks=[around])
peaks.print(batch=BATCH)
