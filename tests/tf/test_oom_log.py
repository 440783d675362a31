"""A real process runs out of memory; its own words and its own dump are read, and they agree."""

import json

import pytest

from lowtide.oom.heap import read_memory_dump
from lowtide.oom.log_reader import read_log_evidence
from lowtide.oom.shortage import explain_evidence
from tests.children import run_python

LIMIT = 300 << 20

# One large array is held, then a product asks for more than is left. TensorFlow waits ten seconds before it gives up,
# so one shortage serves all tests.
CHILD = """
import sys
import tensorflow as tf
held = tf.ones((40, 1024, 1024))
small = tf.ones((1024, 16))
try:
    tf.matmul(tf.ones((40960, 16)), tf.ones((16, 1024)))
except tf.errors.ResourceExhaustedError as error:
    print(error, file=sys.stderr)
info = tf.config.experimental.get_memory_info("CPU:0")
import json
print(json.dumps(info))
"""


@pytest.fixture(scope="module")
def child(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dumps")
    settings = {"TF_BFC_MEMORY_DUMP": str(folder / "oom"), "TF_CPP_MIN_LOG_LEVEL": "0"}
    done = run_python("-c", CHILD, limit_mib=LIMIT >> 20, **settings)
    # The last file is of the moment in which it gave up.
    last = max(folder.iterdir(), key=lambda path: int(path.name.rpartition(".")[2]))
    return done.stderr.encode().splitlines(keepends=True), last, json.loads(done.stdout)


def test_the_log_of_a_real_process_is_one_shortage(child):
    lines, _, _ = child
    (evidence,) = read_log_evidence(lines)
    request = evidence.request
    assert (request.bytes, request.shape, request.dtype) == (160 << 20, (40960, 1024), "float32")
    assert request.op == "MatMul"
    assert request.device.endswith("CPU:0")
    assert evidence.heap.complete
    assert evidence.heap.limit_bytes == LIMIT


def test_the_dump_and_the_log_agree_block_by_block(child):
    lines, dump_file, _ = child
    (evidence,) = read_log_evidence(lines)
    logged, dumped = evidence.heap, read_memory_dump(dump_file, limit_bytes=LIMIT)
    assert dump_file.name.startswith(f"oom_{dumped.allocator}.")
    assert logged.allocator == dumped.allocator
    assert logged.address.tolist() == dumped.address.tolist()
    assert logged.size.tolist() == dumped.size.tolist()
    assert logged.in_use.tolist() == dumped.in_use.tolist()
    assert logged.bytes_in_use == dumped.bytes_in_use
    # Amounts in the log are rounded to hundredths of a MiB.
    assert logged.free_bytes == pytest.approx(dumped.free_bytes, abs=12_000)
    assert logged.largest_free_bytes == pytest.approx(dumped.largest_free_bytes, abs=12_000)
    assert (dumped.requested[dumped.in_use] <= dumped.size[dumped.in_use]).all()
    assert (dumped.requested[dumped.in_use] > 0).all()


def test_it_is_explained(child):
    lines, _, info = child
    (evidence,) = read_log_evidence(lines)
    shortage = explain_evidence(evidence, "train.log")
    assert shortage.holders[0].bytes >= 160 << 20
    assert shortage.largest_free_bytes < 160 << 20
    assert shortage.in_use_bytes <= info["peak"]
    assert shortage.cause.name == "unknown"
    assert "160 MiB was asked for" in shortage.cause.sentence
    assert "one block alone holds" in shortage.cause.sentence
