"""Facts of single nodes, in exact numbers, without TensorFlow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lowtide.program.dtypes import DTYPES
from lowtide.program.facts import catalog
from lowtide.program.facts.op_fact import OpFact, register
from lowtide.program.graph import NodeView
from lowtide.program.machine import Machine, current_machine, use_machine
from tests.unit.graphs import one_node

NUMBERS = {name: number for number, (name, _) in DTYPES.items()}


def node(op: str, inputs: list[Any], outputs: list[Any], **attributes: Any) -> NodeView:
    """A graph of one node. A tensor is a shape, (shape, dtype), None, or an array for a constant."""
    shapes, dtypes, values = [], [], {}
    for index, tensor in enumerate([*inputs, *outputs]):
        if isinstance(tensor, np.ndarray):
            values[index] = tensor
            shape, dtype = tensor.shape, str(tensor.dtype)
        elif tensor is not None and len(tensor) == 2 and isinstance(tensor[1], str):
            shape, dtype = tensor
        else:
            shape, dtype = tensor, "float32"
        shapes.append(shape)
        dtypes.append(NUMBERS[dtype])
    return one_node(op, len(inputs), dtypes, shapes, attributes, values)


def aliases(view: NodeView) -> list[tuple[int, int]]:
    fact = catalog.fact_of(view.op)
    assert fact is not None
    return list(fact.aliases(view) if callable(fact.aliases) else fact.aliases)


def forwards(view: NodeView) -> list[tuple[int, int]]:
    fact = catalog.fact_of(view.op)
    assert fact is not None
    return list(fact.forwards(view) if callable(fact.forwards) else fact.forwards)


def temporaries(view: NodeView) -> list[int]:
    fact = catalog.fact_of(view.op)
    assert fact is not None
    return list(fact.temporaries(view)) if fact.temporaries else []


@pytest.fixture
def machine():
    """A machine of four threads and 8 MiB of last-level cache."""
    before = current_machine()
    use_machine(replace(Machine.here(), intra_op_threads=4, l3_cache_bytes=8 * 2**20))
    yield
    use_machine(before)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_the_ops_of_a_training_step_are_known():
    common = "Conv2D Conv2DBackpropFilter MatMul Relu ReluGrad AddV2 Mul Mean Sum BiasAdd Softmax GatherV2 Cast".split()
    assert set(common) <= set(catalog.known_ops())
    assert len(catalog.known_ops()) > 500


def test_an_op_has_one_fact():
    with pytest.raises(ValueError, match="two facts for op Relu"):
        register("Relu", OpFact())


def test_unknown_ops_have_no_fact():
    assert catalog.fact_of("NoSuchOp") is None


def test_elementwise_ops_work_in_place():
    assert forwards(node("Relu", [(8,)], [(8,)])) == [(0, 0)]
    assert forwards(node("Mul", [(8,), (8,)], [(8,)])) == [(0, 0), (0, 1)]
    assert forwards(node("AddN", [(8,)] * 3, [(8,)])) == [(0, 0), (0, 1), (0, 2)]
    assert aliases(node("AddN", [(8,)], [(8,)])) == [(0, 0)]


def test_cast_to_the_same_type_is_a_view():
    assert aliases(node("Cast", [(8,)], [(8,)])) == [(0, 0)]
    assert aliases(node("Cast", [(8,)], [((8,), "bfloat16")])) == []


@pytest.mark.parametrize(
    ("axes", "expected"),
    [((0,), []), ((0, 1, 2), []), ((1,), []), ((0, 2), []), ((1, 3), [2 * 3 * 4 * 5 * 4])],
)
def test_reductions_copy_when_axes_alternate(axes, expected):
    view = node("Sum", [(2, 3, 4, 5), ints(*axes)], [()])
    assert temporaries(view) == (expected if axes != (0, 2) else [2 * 3 * 4 * 5 * 4])


def test_reduction_of_nothing_is_a_view():
    assert aliases(node("Mean", [(8, 1, 4), ints(1)], [(8, 4)])) == [(0, 0)]
    assert aliases(node("Mean", [(8, 2, 4), ints(1)], [(8, 4)])) == []


def test_transpose_of_single_dimensions_is_a_view():
    assert aliases(node("Transpose", [(8, 1, 4), ints(1, 0, 2)], [(1, 8, 4)])) == [(0, 0)]
    assert aliases(node("Transpose", [(8, 2, 4), ints(1, 0, 2)], [(2, 8, 4)])) == []


def test_slices_of_aligned_rows_are_views():
    masks = {"begin_mask": 2, "end_mask": 2}
    for width, expected in ((16, [(0, 0)]), (15, [])):
        begin, end = ints(1, 0), ints(3, 0)
        assert aliases(node("StridedSlice", [(8, width), begin, end, ints(1, 1)], [(2, width)], **masks)) == expected
        assert aliases(node("Slice", [(8, width), begin, ints(2, -1)], [(2, width)])) == expected
        assert aliases(node("Unpack", [(2, width)], [(width,)] * 2, axis=0)) == [(i, 0) for i in range(2) if expected]


def test_a_slice_in_a_loop_is_a_view_of_a_row():
    unknown = ((1,), "int32")
    view = node("StridedSlice", [(8, 16), unknown, unknown, ints(1)], [(16,)], shrink_axis_mask=1)
    assert aliases(view) == [(0, 0)]
    view = node("StridedSlice", [(8, 15), unknown, unknown, ints(1)], [(15,)], shrink_axis_mask=1)
    assert aliases(view) == []


def test_split_of_columns_copies():
    view = node("Split", [np.array(1, np.int32), (8, 32)], [(8, 16)] * 2)
    assert aliases(view) == []
    view = node("Split", [np.array(0, np.int32), (8, 32)], [(4, 32)] * 2)
    assert aliases(view) == [(0, 1), (1, 1)]


def test_matrix_product_of_half_floats_uses_float32_copies():
    operands = [((8, 4), "bfloat16"), ((4, 2), "bfloat16")]
    assert temporaries(node("MatMul", operands, [((8, 2), "bfloat16")])) == [8 * 4 * 4, 4 * 2 * 4, 8 * 2 * 4]
    assert temporaries(node("MatMul", [(8, 4), (4, 2)], [(8, 2)])) == []


def test_filter_gradient_fills_its_working_set_whatever_the_batch():
    def of(batch: int) -> list[int]:
        operands = [(batch, 32, 32, 16), ints(3, 3, 16, 32), (batch, 32, 32, 32)]
        return temporaries(node("Conv2DBackpropFilter", operands, [(3, 3, 16, 32)]))

    images = 43  # 30 MiB of floats over the 184,832 that one image's product touches, rounded up
    assert of(1) == of(64) == [images * 32 * 32 * 3 * 3 * 16 * 4]


def test_input_gradient_takes_one_image_at_a_time_if_it_is_large(machine):
    def of(size: int, batch: int) -> list[int]:
        operands = [ints(batch, size, size, 16), (3, 3, 16, 32), (batch, size, size, 32)]
        return temporaries(node("Conv2DBackpropInput", operands, [(batch, size, size, 16)]))

    assert of(64, 8) == [64 * 64 * 144 * 4]
    assert of(8, 1) == [8 * 8 * 144 * 4]
    assert of(8, 2) == [496 * 8 * 8 * 144 * 4]


def test_volume_gradient_depends_on_the_cache(machine):
    operands = [(64, 8, 8, 8, 4), ints(3, 3, 3, 4, 8), (64, 8, 8, 8, 8)]
    column = 8**3 * 27 * 4
    work = column + 8**3 * 8 + 27 * 4 * 8
    images = -(-8 * 2**20 // 4 // work)
    assert temporaries(node("Conv3DBackpropFilterV2", operands, [(3, 3, 3, 4, 8)])) == [images * column * 4]
    use_machine(replace(current_machine(), l3_cache_bytes=512 * 2**20))
    assert temporaries(node("Conv3DBackpropFilterV2", operands, [(3, 3, 3, 4, 8)])) == []


def test_max_pool_gradient_pools_again():
    operands = [(2, 4, 4, 3), (2, 2, 2, 3), (2, 2, 2, 3)]
    assert temporaries(node("MaxPoolGrad", operands, [(2, 4, 4, 3)])) == [24 * 4, 24 * 8]


@pytest.mark.parametrize(
    ("equation", "shapes", "output", "expected"),
    [
        ("abc,cd->abd", [(2, 3, 4), (4, 5)], (2, 3, 5), []),
        ("aecd,abcd->acbe", [(2, 3, 4, 5), (2, 6, 4, 5)], (2, 4, 6, 3), [120 * 4, 240 * 4, 144 * 4]),
        ("ab->ba", [(2, 3)], (3, 2), []),
    ],
)
def test_einsum_transposes_into_new_buffers(equation, shapes, output, expected):
    assert temporaries(node("Einsum", shapes, [output], equation=equation)) == expected


def test_einsum_that_changes_nothing_is_a_view():
    assert aliases(node("Einsum", [(2, 3)], [(2, 3)], equation="ab->ab")) == [(0, 0)]


def test_facts_of_unknown_shapes_claim_nothing():
    assert temporaries(node("Conv2DBackpropInput", [None, None, None], [None])) == []
    assert aliases(node("Transpose", [None, ints(0, 1)], [None])) == []
    assert temporaries(node("Sum", [(2, 3, 4, 5), None], [()])) == []


def test_machine_here_has_threads_and_growing_caches():
    here = Machine.here()
    assert here.intra_op_threads >= 1
    assert 0 < here.l1_cache_bytes <= here.l2_cache_bytes <= here.l3_cache_bytes


def test_every_fact_accepts_a_node_of_unknown_shape():
    for op in catalog.known_ops():
        view = node(op, [None] * 8, [None] * 8)
        fact = catalog.fact_of(op)
        for part in (fact.aliases, fact.forwards, fact.temporaries):
            if callable(part):
                part(view)
