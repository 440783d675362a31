"""Which allocators keep count, in processes of their own: TensorFlow chooses its allocator once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import tensorflow as tf
from lowtide.tf.memory_meter import Meter
kept = tf.zeros([1024])
meter = Meter()
print(meter.devices, meter.read().bytes > 0)
"""


@pytest.mark.parametrize("onednn", ["0", "1"])
@pytest.mark.parametrize(("bfc", "devices"), [("false", []), ("true", ["CPU:0"])])
def test_an_allocator_that_keeps_no_count_is_not_asked_for_one(onednn, bfc, devices):
    environment = os.environ | {
        "TF_ENABLE_ONEDNN_OPTS": onednn,
        "TF_CPU_ALLOCATOR_USE_BFC": bfc,
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": "256",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"{devices} True", done.stderr
