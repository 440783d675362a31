"""What the four training programs share: their options, and a log of each step by the allocator's own statistic."""

import argparse
import json
import time
from pathlib import Path

import keras
import tensorflow as tf

DEVICE = "CPU:0"


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xla", action="store_true", help="compile the step")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument(
        "--report", type=Path, required=True, help="JSON file for the peak and the seconds of each step"
    )
    parser.add_argument("--profile", type=Path, help="folder for TensorFlow's own profile of one step")
    parser.add_argument("--profiled-step", type=int, default=13)
    return parser.parse_args()


class Batches(keras.utils.PyDataset):
    """Data that arrives in batches, as from files: an array in memory would count as held outside of the step."""

    def __init__(self, make, steps):
        super().__init__()
        self.make = make
        self.steps = steps

    def __len__(self):
        return self.steps

    def __getitem__(self, index):
        return self.make()


class StepLog(keras.callbacks.Callback):
    """The peak and the seconds of each step, as the program itself sees them; a loop calls `begin` and `end`."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.peaks = []
        self.seconds = []

    def is_profiled(self, step):
        return self.options.profile is not None and step == self.options.profiled_step

    def begin(self):
        if self.is_profiled(len(self.peaks) + 1):
            tf.profiler.experimental.start(str(self.options.profile))
        tf.config.experimental.reset_memory_stats(DEVICE)
        self.started = time.perf_counter()

    def end(self):
        self.seconds.append(time.perf_counter() - self.started)
        self.peaks.append(tf.config.experimental.get_memory_info(DEVICE)["peak"])
        if self.is_profiled(len(self.peaks)):
            tf.profiler.experimental.stop()

    def save(self):
        self.options.report.write_text(json.dumps({"peaks": self.peaks, "seconds": self.seconds}))

    def on_train_batch_begin(self, batch, logs=None):
        self.begin()

    def on_train_batch_end(self, batch, logs=None):
        self.end()

    def on_train_end(self, logs=None):
        self.save()
