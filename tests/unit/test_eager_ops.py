"""Allocations of ops that run eagerly: which op made them, and what they are called."""

from dataclasses import replace

import pytest

from lowtide.run.chunks import RecordedChunk, follow
from lowtide.run.graph_names import GraphNames, owners_of
from lowtide.run.record import TAPE
from lowtide.run.recorded_tide import find_eager_batch, steps_of
from lowtide.sources.profiles.xplane import EagerSpan
from lowtide.tide.owner import Owner
from tests.unit.streams import Stream

FORWARD = Owner("Conv2D", "Conv2D", "first", "activations", source="train.py:7")
BACKWARD = Owner("ReluGrad", "ReluGrad", "first", "gradients", source="train.py:7")
CALL = Owner("__forward_f_12", "__forward_f_12", None, "activations", source="train.py:9")
OPS = (FORWARD, BACKWARD, CALL)
MAIN, POOL = 1, 5


def followed(stream, spans):
    window, profile = stream.cut()
    window, profile = replace(window, eager_ops=OPS), replace(profile, spans=tuple(spans))
    return follow([window], [profile], "cpu")[0]


def test_an_allocation_belongs_to_the_op_whose_span_contains_it():
    stream = Stream()
    stream.allocate("before", 4096, "Conv2D")
    first = stream.time + 500
    stream.allocate("output", 4096, "_MklNativeConv2D")
    stream.allocate("gradient", 4096, "ReluGrad")
    spans = [EagerSpan(MAIN, first, first + 1000, 0), EagerSpan(MAIN, first + 1000, first + 2000, 1)]
    stretch = followed(stream, spans)
    assert [chunk.made_by for chunk in stretch.chunks] == [None, FORWARD, BACKWARD]
    assert stretch.events.operation == ["Conv2D", "first/_MklNativeConv2D", "gradient_tape/first/ReluGrad"]


def test_an_op_inside_of_another_one_is_nearer():
    stream = Stream()
    stream.allocate("output", 4096, "Conv2D")
    spans = [EagerSpan(MAIN, 0, 9000, 2), EagerSpan(MAIN, 100, 200, 1), EagerSpan(MAIN, 900, 1100, 0)]
    (chunk,) = followed(stream, spans).chunks
    assert chunk.made_by == FORWARD
    (chunk,) = followed_again(spans[:2])
    assert chunk.made_by == CALL


def followed_again(spans):
    stream = Stream()
    stream.allocate("output", 4096, "Conv2D")
    return followed(stream, spans).chunks


@pytest.mark.parametrize(("threads", "expected"), [((POOL,), FORWARD), ((POOL, 6), None), ((MAIN, POOL), FORWARD)])
def test_an_allocation_of_a_pool_belongs_to_the_only_op_that_runs(threads, expected):
    (chunk,) = followed_again([EagerSpan(thread, 500, 1500, 0) for thread in threads])
    assert chunk.made_by == expected


def identity(operation, made_by, region="output", names=None, **more):
    chunk = RecordedChunk(4096, 1024, 1000, operation, region, "float32", (250,), born=0, made_by=made_by, **more)
    (owner,) = owners_of(chunk, names or GraphNames())
    return owner.name, owner.op, owner.layer, owner.kind, owner.source


def test_what_an_eager_op_allocates_has_its_layer_kind_and_line():
    assert identity("first/_MklNativeConv2D", FORWARD) == (
        "first/_MklNativeConv2D:0", "_MklNativeConv2D", "first", "activations", "train.py:7",
    )  # fmt: skip
    assert identity("gradient_tape/first/ReluGrad", BACKWARD)[2:] == ("first", "gradients", "train.py:7")
    assert identity("first/Conv2D", FORWARD, "temp")[3:] == ("workspace", "train.py:7")
    assert identity(None, FORWARD)[3] == "input"
    # A variable stays what Python calls it.
    variable = Owner("first/kernel", layer="first", kind="weights", bytes=1000, address=4096)
    assert identity("first/Conv2D", FORWARD, owner=variable)[0] == "first/kernel"


def test_nodes_of_a_function_in_an_eager_step_keep_their_names():
    graph = GraphNames(nodes={"dense/MatMul": Owner(op="MatMul", layer="dense", kind="activations")})
    assert identity("dense/MatMul", CALL, names=graph)[:4] == ("dense/MatMul:0", "MatMul", "dense", "activations")
    assert identity("Tanh", CALL)[1:] == ("Tanh", None, "activations", "train.py:9")


def test_the_batch_is_the_first_dimension_of_most_of_the_forward_pass():
    stream = Stream()
    call = stream.begin(1, f"{TAPE} at train.py:6")
    begin = stream.time
    stream.allocate("output", 4096, "Conv2D")
    stream.end(call)
    stretch = followed(stream, [EagerSpan(MAIN, begin, begin + 5000, 0)])
    (step,) = steps_of(stretch)
    assert step.is_eager
    for shapes, expected in (([(8, 4)], 8), ([(8, 4), (1, 9)], None), ([(7,)], None), ([(1, 4)], None)):
        stretch.chunks[:] = [
            RecordedChunk(0, 256, 128, "Conv2D", "output", "float32", shape, born=0, made_by=FORWARD)
            for shape in shapes
        ]
        assert find_eager_batch(stretch, step) == expected
