"""Run in a child with the real allocator: the memory that a step takes, over the whole batch and over micro-batches."""

from __future__ import annotations

import json
import os
import sys

os.environ |= {
    "TF_CPU_ALLOCATOR_USE_BFC": "true",
    "TF_CPU_BFC_MEM_LIMIT_IN_MB": "4096",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}

import keras
import tensorflow as tf
from keras import layers

from lowtide.tf.microbatch.micro_batches import split_step

ROWS = 2048


def deep_net(jit_compile: bool) -> keras.Model:
    """A net whose memory is that of its rows: 1 MiB for each layer, and more than 16 of them."""
    hidden = [layers.Dense(128, activation="tanh") for _ in range(16)]
    model = keras.Sequential([keras.Input((16,)), *hidden, layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=jit_compile)
    return model


def peak_of(count: int, jit_compile: bool) -> int:
    """The bytes on top of what is held between steps, in the second of two steps."""
    model = deep_net(jit_compile)
    step = tf.function(split_step(model, count), autograph=False, jit_compile=jit_compile)
    data = (tf.random.normal((ROWS, 16)), tf.zeros((ROWS,), tf.int32))
    step(data)
    tf.config.experimental.reset_memory_stats("CPU:0")
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    step(data)
    return tf.config.experimental.get_memory_info("CPU:0")["peak"] - before


if __name__ == "__main__":
    asked = [(int(count), mode) for count, _, mode in (word.partition(":") for word in sys.argv[1:])]
    print(json.dumps([peak_of(count, mode == "compiled") for count, mode in asked]))
