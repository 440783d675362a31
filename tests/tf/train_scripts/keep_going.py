"""Trains with the callback lt.KeepGoing and gets a signal; after SIGINT it trains again.

keep_going.py RUN SIGNAL@STEP
"""

import contextlib
import os
import signal
import sys

import keras
import numpy as np

import lowtide as lt

name, _, step = sys.argv[2].partition("@")
x = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
model.compile("sgd", "mse", jit_compile=False)
stop = keras.callbacks.LambdaCallback(
    on_train_batch_end=lambda batch, logs: (
        os.kill(os.getpid(), getattr(signal, name)) if int(model.optimizer.iterations) == int(step) else None
    )
)
for _ in range(2):
    with contextlib.suppress(KeyboardInterrupt):
        model.fit(x, x[:, :2], batch_size=5, epochs=3, verbose=0, callbacks=[lt.KeepGoing(sys.argv[1]), stop])
        break
print(f"steps {int(model.optimizer.iterations)}")
