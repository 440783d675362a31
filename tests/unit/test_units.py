import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.units import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8GiB", 8 * 2**30),
        ("512 MiB", 512 * 2**20),
        (" 512mib ", 512 * 2**20),
        ("8GB", 8_000_000_000),
        ("1.5g", 3 * 2**29),
        ("1.5G", 3 * 2**29),
        ("2Ki", 2048),
        ("3kb", 3000),
        ("0.1 GiB", 107374182),
        ("1TiB", 2**40),
        ("1048576", 2**20),
        ("4096 bytes", 4096),
        ("8e9", 8_000_000_000),
        (".5k", 512),
        (12, 12),
        (np.int64(12), 12),
        (8e9, 8_000_000_000),
    ],
)
def test_parses_what_people_write(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    "amount",
    [
        "8 bananas",
        "",
        "GiB",
        "-1GiB",
        "1,5 GiB",
        "1.2.3",
        "8 Gi B",
        "0",
        "0.1 B",
        "nan",
        0,
        -5,
        True,
        float("nan"),
        float("inf"),
        None,
        [8],
    ],
)
def test_refuses_anything_else_in_one_line_with_what_was_given_and_what_to_write(amount):
    with pytest.raises(LowtideError) as caught:
        parse_bytes(amount)
    assert repr(amount) in str(caught.value)
    assert "8GiB" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (8 * 2**30, "8 GiB"),
        (int(6.41 * 2**30), "6.41 GiB"),
        (int(97.8 * 2**20), "97.8 MiB"),
        (int(195.63 * 2**20), "195.6 MiB"),
        (2**20 - 1, "1 MiB"),
        (100 * 2**20, "100 MiB"),
        (3000 * 2**50, "3000 PiB"),
        (-1536, "-1.5 KiB"),
    ],
)
def test_formats_for_people(count, expected):
    assert format_bytes(count) == expected


@given(st.integers(min_value=1, max_value=2**60))
def test_what_is_printed_can_be_parsed_and_is_nearly_the_same(count):
    assert parse_bytes(format_bytes(count)) == pytest.approx(count, rel=0.006)
