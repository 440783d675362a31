"""How a program of these tests watches itself: the allocator's own peak of each of its steps."""

import json

import tensorflow as tf

DEVICE = "CPU:0"


class Watch:
    """Around each step: the most that was in use meanwhile."""

    def __init__(self):
        self.peaks = []

    def __enter__(self):
        tf.config.experimental.reset_memory_stats(DEVICE)

    def __exit__(self, *error):
        self.peaks.append(tf.config.experimental.get_memory_info(DEVICE)["peak"])

    def tell(self, **more):
        print(json.dumps({"peaks": self.peaks, **more}), flush=True)
