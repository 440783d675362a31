"""A process ends while the threads of a pipeline still call Python."""

import pytest

from tests.children import run_python

PROGRAM = """
import itertools
import numpy as np
import tensorflow as tf
import lowtide as lt

def rows():
    for number in itertools.count():
        sum(range(20_000))
        yield np.full(4, number, "float32")

data = lt.feed.generator(rows, spec=tf.TensorSpec((4,)), batch_size=4, budget="64MiB")
batches = iter(data)
print(next(batches).numpy().sum())
"""


# About every second process waited for ever before.
@pytest.mark.parametrize("process", range(3))
def test_a_process_ends_while_its_pipeline_reads(process):
    assert run_python("-c", PROGRAM).stdout.split() == ["24.0"]
