"""Walking the wire format by offsets."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.sources.protobuf.wire import (
    BYTES,
    FIXED64,
    OPEN_END,
    VARINT,
    WireError,
    read_fields,
    read_text,
    walk,
    walk_inside,
)
from tests.unit.protos import double, message, number

DATA = number(1, 300) + double(2, 1.5) + message(3, "abc") + message(3)


def test_a_walk_gives_values_and_offsets():
    assert list(walk(DATA, 0, len(DATA))) == [
        (1, VARINT, 300, 3),
        (2, FIXED64, 4, 12),
        (3, BYTES, 14, 17),
        (3, BYTES, 19, 19),
    ]
    assert list(walk_inside(DATA, 0, len(DATA), 3)) == [(14, 17), (19, 19)]


def test_a_walk_starts_and_ends_at_the_given_offsets():
    assert list(walk(DATA, 3, 12)) == [(2, FIXED64, 4, 12)]


def test_a_field_that_is_cut_ends_where_it_should_have_ended():
    assert list(walk(message(1, "abc")[:3], 0, OPEN_END)) == [(1, BYTES, 2, 5)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x0a\x04abc", "end in the middle of a field, at byte 2"),
        (b"\x0b", "unknown wire type 3"),
        (b"\x02\x00", "without a number"),
        (b"\x08\xff", "in the middle of a number"),
        (b"\x08" + b"\xff" * 11, "longer than 64 bits"),
    ],
)
def test_bytes_that_are_not_a_message_are_refused_with_the_reason(data, reason):
    with pytest.raises(WireError, match=reason):
        list(walk(data, 0, len(data)))


def test_reading_returns_the_bytes_at_the_offsets():
    assert list(read_fields(DATA)) == [(1, 300), (2, struct.pack("<d", 1.5)), (3, b"abc"), (3, b"")]


@given(st.lists(st.tuples(st.integers(1, 2**29 - 1), st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=300)))))
def test_written_files_are_read_back(fields):
    written = b"".join(
        number(field, value) if isinstance(value, int) else message(field, value) for field, value in fields
    )
    assert list(read_fields(written)) == fields


def test_a_long_text_is_not_read_to_its_end():
    assert read_text(b"x" * 1000, 0, 1000) == "x" * 200 + "…"
    assert read_text(b"a\xff", 0, 2) == "a�"
