"""Compiled modules of a few instructions, written byte by byte, with exact numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.sources.profiles.hlo import read_compiled_module
from lowtide.sources.profiles.hlo_memory import open_block

FLOAT32, TUPLE = 11, 13
ALLOCATE, FREE, SHARE = 0, 1, 2


def varint(number: int) -> bytes:
    result = bytearray()
    while number >= 0x80:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*result, number])


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Encode (field number, value) pairs as a protocol buffer."""
    result = b""
    for number, value in fields:
        if isinstance(value, int):
            result += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            result += varint(number << 3 | 2) + varint(len(data)) + data
    return result


def array(*dimensions: int) -> bytes:
    return message((2, FLOAT32), (3, b"".join(varint(each) for each in dimensions)))


def instruction(identity: int, name: str, opcode: str, shape: bytes, *more: tuple[int, int | str | bytes]) -> bytes:
    # Real protos are written in the order of field numbers.
    return message(*sorted([(1, name), (2, opcode), (3, shape), (35, identity), *more], key=lambda field: field[0]))


def metadata(op_type: str, op_name: str) -> tuple[int, bytes]:
    return 7, message((1, op_type), (2, op_name), (3, "train.py"), (4, 42))


def logical(key: int, size: int, identity: int, *index: int) -> tuple[int, bytes]:
    place = message((3, b"".join(varint(each) for each in index)), (4, identity)) if index else message((4, identity))
    return 1, message((1, key), (2, size), (3, place))


def allocation(index: int, size: int, *more: tuple[int, int | bytes]) -> tuple[int, bytes]:
    return 3, message((1, index), (2, size), *more)


def assigned(key: int, offset: int, size: int) -> tuple[int, bytes]:
    return 9, message((1, key), (2, offset), (3, size))


def event(kind: int, key: int, name: str, shared: int | None = None) -> tuple[int, bytes]:
    tail = [] if shared is None else [(5, shared)]
    return 1, message((1, kind), (2, key), (4, name), *tail)


PARAMETER, MATMUL, RELU, GRADIENT, COPY, FUSION, ROOT = range(1, 8)
INNER_ADD, INNER_ROOT = 20, 21


def small_step() -> bytes:
    """A parameter, its copy, two values of which one is overwritten in place, a fusion, and a tuple as result."""
    entry = message(
        (1, "main"),
        (2, instruction(PARAMETER, "arg0", "parameter", array(8, 8), metadata("", "XLA_Args"), (9, 3))),
        (2, instruction(COPY, "copy.1", "copy", array(8, 8), (36, varint(PARAMETER)))),
        (2, instruction(MATMUL, "dot.1", "dot", array(16, 8), metadata("MatMul", "model/dense/MatMul"))),
        (2, instruction(RELU, "max.1", "maximum", array(16, 8), metadata("Relu", "model/dense/Relu"))),
        (
            2,
            instruction(GRADIENT, "dot.2", "dot", array(32, 8), metadata("MatMul", "gradient_tape/model/dense/MatMul")),
        ),
        (2, instruction(FUSION, "fusion.1", "fusion", array(4), (38, varint(9)))),
        (2, instruction(ROOT, "tuple.1", "tuple", message((2, TUPLE), (4, array(4)), (4, array(8, 8))))),
        (5, 1),
    )
    fused = message(
        (1, "fused"),
        (2, instruction(INNER_ADD, "add.1", "add", array(4), metadata("AddV2", "model/inner/add"))),
        (2, instruction(INNER_ROOT, "neg.1", "negate", array(4), metadata("Neg", "model/outer/neg"))),
        (5, 9),
    )
    alias = message((1, message((1, varint(1)), (2, 3), (4, 1))))
    shape = message((1, array(8, 8)), (2, message((2, TUPLE), (4, array(4)), (4, array(8, 8)))))
    module = message((1, "step"), (3, fused), (3, entry), (4, shape), (8, alias))
    heap = message(
        event(ALLOCATE, 100, "copy.1"),
        event(ALLOCATE, 101, "dot.1"),
        event(SHARE, 102, "max.1", 101),
        event(FREE, 101, "max.1"),
        event(FREE, 100, "max.1"),
        event(ALLOCATE, 103, "dot.2"),
        event(FREE, 103, "fusion.1"),
        event(FREE, 102, "fusion.1"),
        (2, 1),
        (3, 77),  # the number an allocation had before they were merged
    )
    assignment = message(
        logical(99, 256, PARAMETER),
        logical(100, 256, COPY),
        logical(101, 512, MATMUL),
        logical(102, 512, RELU),
        logical(103, 1024, GRADIENT),
        logical(104, 16, FUSION),
        logical(105, 16, ROOT),
        allocation(0, 256, (5, 1), (6, 3), (7, 1), assigned(99, 0, 256)),
        allocation(1, 16, (7, 1), (11, 1), assigned(105, 0, 16)),
        allocation(2, 16, (7, 1), assigned(104, 0, 16)),
        allocation(3, 8, (12, 1)),
        allocation(4, 4, (3, 1)),
        allocation(
            5,
            1600,
            assigned(100, 1024, 256),
            assigned(101, 1088, 512),
            assigned(102, 1088, 512),
            assigned(103, 0, 1024),
        ),
        (4, heap),
    )
    return message((1, module), (3, assignment))


def test_only_results_their_table_and_temporaries_are_requested() -> None:
    module = read_compiled_module(small_step())
    requested = [(each.index, each.size) for each in module.allocations if each.is_requested_at_run_time]
    assert requested == [(1, 16), (2, 16), (5, 1600)]
    assert [each.parameter_number for each in module.allocations[:2]] == [3, None]
    assert [each.is_tuple for each in module.allocations[:3]] == [False, True, False]
    assert module.aliases == {(1,): 3}
    results = module.instructions["tuple.1"].shape
    assert results.part((1,)).dimensions == (8, 8)
    assert results.part((7,)) is results


def test_the_fullest_moment_counts_a_value_written_in_place_once() -> None:
    module = read_compiled_module(small_step())
    block = open_block(module, module.allocations[5])
    assert block.peak_event == 5
    assert block.instructions[5] == "dot.2"
    assert [(value.name, value.offset, value.size) for value in block.held] == [
        ("dot.2", 0, 1024),
        ("max.1", 1088, 512),
    ]
    assert block.size - sum(value.size for value in block.held) == 64


def test_names_come_from_tensorflow_through_fusions_and_copies() -> None:
    instructions = read_compiled_module(small_step()).instructions
    relu = instructions["max.1"]
    assert (relu.op_type, relu.op_name) == ("Relu", "model/dense/Relu")
    assert (relu.shape.dtype, relu.shape.dimensions) == ("float32", (16, 8))
    fusion = instructions["fusion.1"].origin
    assert fusion is not None
    assert fusion.op_name == "model/outer/neg"
    copy = instructions["copy.1"].origin
    assert copy is not None
    assert (copy.op_name, copy.parameter_number) == (None, 3)


WHILE, START, BODY_PARAMETER, BODY_ELEMENT, BODY_COPY = range(30, 35)


def looping_step(loop: tuple[int, bytes] | None) -> bytes:
    """A loop whose body copies what it is given; `loop` is what TensorFlow calls the loop."""
    state = message((2, TUPLE), (4, array(8)))
    entry = message(
        (1, "main"),
        (2, instruction(START, "start", "constant", state, metadata("Pack", "model/start"))),
        (
            2,
            instruction(
                WHILE, "while.1", "while", state, (36, varint(START)), (38, varint(5)), *([loop] if loop else [])
            ),
        ),
        (5, 1),
    )
    body = message(
        (1, "body"),
        (2, instruction(BODY_PARAMETER, "state", "parameter", state, metadata("", "XLA_Args"))),
        (2, instruction(BODY_ELEMENT, "element", "get-tuple-element", array(8), (36, varint(BODY_PARAMETER)))),
        (2, instruction(BODY_COPY, "copy.2", "copy", array(8), (36, varint(BODY_ELEMENT)))),
        (5, 5),
    )
    module = message((1, "step"), (3, body), (3, entry))
    assignment = message(logical(1, 32, BODY_COPY), allocation(0, 32, assigned(1, 0, 32)))
    return message((1, module), (3, assignment))


@pytest.mark.parametrize(
    ("loop", "op_name"),
    [
        (metadata("While", "model/lstm/while"), "model/lstm/while"),
        # A loop that XLA made up is named after what goes into it.
        (None, "model/start"),
    ],
)
def test_inputs_of_a_loop_are_named_after_the_loop(loop: tuple[int, bytes] | None, op_name: str) -> None:
    copy = read_compiled_module(looping_step(loop)).instructions["copy.2"].origin
    assert copy is not None
    assert (copy.op_name, copy.parameter_number) == (op_name, None)


def test_a_value_outside_the_heap_simulation_is_held_all_the_time() -> None:
    assignment = message(
        logical(1, 64, MATMUL),
        logical(2, 32, RELU),
        allocation(0, 128, assigned(1, 0, 64), assigned(2, 64, 32)),
        (4, message(event(ALLOCATE, 1, "dot.1"), event(FREE, 1, "dot.1"))),
    )
    module = read_compiled_module(message((1, message((1, "step"))), (3, assignment)))
    block = open_block(module, module.allocations[0])
    assert [value.size for value in block.held] == [64, 32]
    assert block.held[0].instruction is None


def test_a_block_without_a_trace_is_filled_by_the_other_allocations() -> None:
    assignment = message(logical(1, 64, MATMUL), allocation(0, 64, assigned(1, 0, 64)))
    module = read_compiled_module(message((1, message((1, "step"))), (3, assignment)))
    block = open_block(module, module.allocations[0])
    assert block.peak_event is None
    assert [value.size for value in block.held] == [64]


def test_a_module_without_buffer_assignment_names_the_option_to_set() -> None:
    with pytest.raises(LowtideError, match="optimized_hlo_proto_serialized"):
        read_compiled_module(message((1, message((1, "step")))))


@given(st.integers(min_value=1, max_value=len(small_step()) - 1))
def test_a_cut_off_module_is_an_error_of_ours(length: int) -> None:
    with pytest.raises(LowtideError):
        read_compiled_module(small_step()[:length])
