"""Which allocators keep count, in processes of their own: TensorFlow chooses its allocator once."""

from __future__ import annotations

import pytest

from tests.children import run_python

PROGRAM = """
import tensorflow as tf
from lowtide.tf.memory_meter import MemoryMeter
kept = tf.zeros([1024])
meter = MemoryMeter()
print(meter.devices, meter.read().bytes > 0)
"""


@pytest.mark.parametrize("onednn", ["0", "1"])
@pytest.mark.parametrize(("bfc", "devices"), [("false", []), ("true", ["CPU:0"])])
def test_an_allocator_that_keeps_no_count_is_not_asked_for_one(onednn, bfc, devices):
    done = run_python("-c", PROGRAM, limit_mib=256, TF_CPU_ALLOCATOR_USE_BFC=bfc, TF_ENABLE_ONEDNN_OPTS=onednn)
    assert done.stdout.strip() == f"{devices} True", done.stderr
