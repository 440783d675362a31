"""The part of `lowtide run` that lives in the script's own process, once the script has imported TensorFlow."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import tensorflow as tf
from tensorflow.python.eager import context

from lowtide.tf.record import recorder


def limit_gpus(limit_bytes: int) -> None:
    """Give each GPU a hard limit, as the environment gives one to the CPU; it comes before devices are used."""
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=limit_bytes >> 20)
        tf.config.set_logical_device_configuration(gpu, [limit])
    if gpus:
        # TensorFlow refuses growth for a device that has a limit, and scripts that ask for it would end there.
        context.context().set_memory_growth = lambda device, enable: None


def begin(folder: str, steps: int) -> bool:
    """Record so many steady steps from now on; True says that it has begun."""
    recorder.start(Path(folder), steps)
    return True


def end(process: int) -> None:
    """Write what is left to write; Python itself remembers the exception that ended the script, if one did."""
    if os.getpid() == process:
        recorder.finish(getattr(sys, "last_value", None))
