"""The peak of each step of a program, by the allocator's own statistic."""

import json

import tensorflow as tf

DEVICE = "CPU:0"


class StepPeaks:
    """A context for each step, which records the highest use within it."""

    def __init__(self):
        self.peaks = []

    def __enter__(self):
        tf.config.experimental.reset_memory_stats(DEVICE)

    def __exit__(self, *error):
        self.peaks.append(tf.config.experimental.get_memory_info(DEVICE)["peak"])

    def print(self, **more):
        """Print the peaks and further fields as the last line of the program."""
        print(json.dumps({"peaks": self.peaks, **more}), flush=True)
