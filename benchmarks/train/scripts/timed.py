"""Trains a small or a large model, and says what its steps cost in processor time.

timed.py FOLDER SIZE --steps N [--kill STEP] [--foreground]

FOLDER/result.json gets the processor time of this process at its first step and of a step after that.
"""

import argparse
import json
import os
import signal
import time
from pathlib import Path

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("size", choices=["small", "large"])
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--kill", type=int, help="SIGKILL after this step, once")
parser.add_argument("--foreground", action="store_true", help="write no checkpoint in the background")
options = parser.parse_args()
keras.utils.set_random_seed(1)
if options.foreground:
    from lowtide.tf.train import variables_copy

    variables_copy.LEAST_BYTES = 1 << 60
# Steps whose time is not that of the others.
WARM_STEPS = 50


# Attributes of the callback would be restored after a restart.
seen = {}


class Times(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.setdefault("first", time.process_time())
        steps = int(self.model.optimizer.iterations)
        if steps == WARM_STEPS:
            seen["warm"] = time.process_time()
        marker = options.folder / "killed"
        if steps == options.kill and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_end(self, logs=None):
        seen["last"] = time.process_time()


# 25 million weights, and two slots of Adam for each: 300 MB.
width, depth, batch = (2240, 5, 4) if options.size == "large" else (256, 4, 256)
inputs = outputs = keras.Input((width,))
for _ in range(depth):
    outputs = keras.layers.Dense(width, activation="relu")(outputs)
model = keras.Model(inputs, keras.layers.Dense(1)(outputs))
model.compile("adam", "mse")
generator = np.random.default_rng(0)
x = generator.normal(size=(options.steps * batch, width)).astype("float32")
model.fit(x, x[:, :1], batch_size=batch, epochs=1, verbose=0, callbacks=[Times()])
step = (seen["last"] - seen["warm"]) / (options.steps - WARM_STEPS) if "warm" in seen else None
result = {"first_step_seconds": seen["first"], "step_seconds": step, "process_seconds": time.process_time()}
(options.folder / "result.json").write_text(json.dumps(result))
