"""A batch that a step draws from a data set, found by the bytes of its rows."""

import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, types_pb2

from lowtide.sources.profiles.compiled_modules import Signature
from lowtide.sources.profiles.hlo_module import Shape
from lowtide.tf.record.called_function import StepAllocations, _batch_by_bytes, _batch_by_modules
from lowtide.tf.record.inspect_step import inspect_function
from lowtide.tf.trace.step import StepMetadata


def drawing(*shapes):
    graph = graph_pb2.GraphDef()
    node = graph.node.add(name="IteratorGetNext", op="IteratorGetNext")
    for shape in shapes:
        node.attr["output_types"].list.type.append(types_pb2.DT_FLOAT)
        sizes = node.attr["output_shapes"].list.shape.add()
        for size in shape:
            sizes.dim.add(size=size)
    return graph


@pytest.mark.parametrize(
    ("shapes", "sizes", "batch"),
    [
        ([(-1, 10), (-1,)], [32 * 40, 32 * 4, 7 * 40, 1 << 20], 32),
        # Two of one size: a block that happens to be a multiple of a row is there once.
        ([(-1, 10), (-1, 10)], [32 * 40, 32 * 40, 5 * 40], 32),
        # The batch comes again and again.
        ([(-1, 10)], [3 * 40, 32 * 40, 32 * 40], 32),
        # Nothing of that size was asked for, or the size of a row is not known.
        ([(-1, 10)], [41, 7], None),
        ([(-1, -1)], [40], None),
        ([(8, 10)], [320], None),
    ],
)
def test_the_batch_whose_tensors_were_all_asked_for(shapes, sizes, batch):
    assert _batch_by_bytes(drawing(*shapes), StepAllocations(sizes=tuple(sizes))) == batch
    assert _batch_by_bytes(drawing(*shapes), StepAllocations(surrounding_sizes=tuple(sizes))) == batch


FLOATS = "float32"
STEP = Signature((Shape(FLOATS, (32, 10)), Shape(FLOATS, (32,)), Shape(FLOATS, (784, 10))), 1 << 20)


@pytest.mark.parametrize(
    ("modules", "batch"),
    [
        # The allocator never allocations of the batch: the arrays were used where NumPy had put them.
        ((STEP,), 32),
        # Another module is there, but its block was not asked for in this step.
        ((Signature((Shape(FLOATS, (8, 10)), Shape(FLOATS, (8,))), 1 << 18), STEP), 32),
        # A weight with its slots looks like what is drawn, and comes after it.
        ((Signature((Shape(FLOATS, (32, 10)), *[Shape(FLOATS, (784, 10))] * 3), 1 << 20),), 32),
        ((Signature((Shape(FLOATS, (32, 11)),), 1 << 20),), None),
        ((), None),
    ],
)
def test_the_batch_that_the_compiled_step_was_made_for(modules, batch):
    allocations = StepAllocations(sizes=(40 * 784, 1 << 20), modules=modules)
    assert _batch_by_modules(drawing((-1, 10), (-1,)), allocations) == batch


@pytest.mark.parametrize(
    ("sizes", "recorded", "is_predicted"),
    [
        ((None, 10), (32, 4), True),
        ((32, 10), (32, 4), True),
        # The length of the sequences, or the batch, is not known.
        ((None, None), (32, 4), False),
        ((None, 10), None, False),
        (None, (32, 4), False),
    ],
)
def test_a_step_is_predicted_only_if_all_sizes_of_its_batch_are_known(sizes, recorded, is_predicted):
    dataset = tf.data.Dataset.from_generator(lambda: iter(()), output_signature=tf.TensorSpec(sizes))

    @tf.function
    def step(batches):
        rows = tf.shape(next(batches))[0]
        # A node that tells the batch where the batch itself does not.
        return tf.identity(tf.ensure_shape(tf.ones((rows, 4)), (None, 4)), name="rows")

    allocations = StepAllocations() if recorded is None else StepAllocations(tensors=(("rows", recorded),))
    concrete = step.get_concrete_function(iter(dataset))
    found = inspect_function(concrete, [], allocations, StepMetadata(frozenset(), {}), lambda progress: None)
    assert (found.step is not None) == is_predicted
