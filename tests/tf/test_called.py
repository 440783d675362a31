"""A batch that a step draws from a data set, found by the bytes of its rows."""

import pytest
from tensorflow.core.framework import graph_pb2, types_pb2

from lowtide.tf.called import Heard, _batch_by_bytes


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
    assert _batch_by_bytes(drawing(*shapes), Heard(sizes=tuple(sizes))) == batch
    assert _batch_by_bytes(drawing(*shapes), Heard(around_sizes=tuple(sizes))) == batch
