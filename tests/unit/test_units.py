import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.units import (
    GrowthLimit,
    format_bytes,
    format_bytes_up,
    format_change,
    format_count,
    format_growth,
    parse_bytes,
    parse_growth,
)


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


@given(st.integers(1, 1 << 60))
def test_what_is_printed_as_the_least_is_enough(count):
    assert count <= parse_bytes(format_bytes_up(count)) <= max(count * 1.011, count + 1)


@given(st.integers(min_value=1, max_value=2**60))
def test_a_printed_amount_can_be_parsed_and_is_nearly_the_same(count):
    assert parse_bytes(format_bytes(count)) == pytest.approx(count, rel=0.006)


@pytest.mark.parametrize(
    ("growth", "above_1000", "text"),
    [
        ("5%", 50, "5%"),
        (" 2.5 % ", 25, "2.5%"),
        (".1%", 1, "0.1%"),
        ("150%", 1500, "150%"),
        ("0%", 0, "0%"),
        ("0", 0, "0 B"),
        ("1KiB", 1024, "1 KiB"),
        ("2 kb", 2000, "1.95 KiB"),
        ("0 MiB", 0, "0 B"),
        (0.05, 50, "5%"),
        (0.0, 0, "0%"),
        (np.float64(0.1), 100, "10%"),
        (1.0, 1000, "100%"),
        (512, 512, "512 B"),
        (0, 0, "0 B"),
        (np.int64(3), 3, "3 B"),
    ],
)
def test_a_growth_is_a_share_or_an_amount(growth, above_1000, text):
    found = parse_growth(growth)
    assert found.above(1000) == above_1000
    assert str(found) == text
    assert (found.share is None) != (found.bytes is None)
    assert parse_growth(found) is found


def test_a_share_is_counted_without_rounding_errors():
    # 0.07 * 100 is 7.000000000000001 in binary floating point, and 0.29 * 100 is 28.999999999999996.
    assert parse_growth("7%").above(100) == 7
    assert parse_growth(0.29).above(100) == 29


@pytest.mark.parametrize(
    "growth",
    ["5", "0.05", "five", "", "%", "-5%", "5 %%", "5% of it", "-1MiB", "3 bananas", "1e400%", "nan%"]
    + [-1, -0.1, True, float("nan"), float("inf"), None, [5]],
)
def test_any_other_growth_is_refused_in_one_line(growth):
    with pytest.raises(LowtideError) as caught:
        parse_growth(growth)
    assert repr(growth) in str(caught.value)
    assert "5%" in str(caught.value)
    assert "200MiB" in str(caught.value)


def test_changes_are_written_with_their_sign():
    assert [format_change(count) for count in (1536, 0, -1536)] == ["+1.5 KiB", "0 B", "-1.5 KiB"]
    shares = (0.103, -0.04, 0.0, None, 0.0001, -0.0001, 12.345, 2200.94)
    words = ["+10.3%", "-4.0%", "no change", "from nothing", "+<0.1%", "-<0.1%", "+1,234%", "+220,094%"]
    assert [format_growth(share) for share in shares] == words


def test_a_growth_can_be_compared():
    assert parse_growth("1KiB") == GrowthLimit(None, 1024)


def test_a_number_with_a_fraction_is_not_taken_for_bytes():
    assert parse_bytes(8e9) == 8_000_000_000
    with pytest.raises(LowtideError, match=r'write "1\.5GiB"'):
        parse_bytes(1.5)


@pytest.mark.parametrize(
    ("count", "noun", "plural", "text"),
    [
        (1, "line", None, "1 line"),
        (0, "line", None, "0 lines"),
        (12_345, "batch", None, "12,345 batches"),
        (2, "box", None, "2 boxes"),
        (2, "entry", None, "2 entries"),
        (2, "array", None, "2 arrays"),
        (2, "leaf", "leaves", "2 leaves"),
        (1, "input names a node", "inputs name nodes", "1 input names a node"),
    ],
)
def test_a_count_agrees_with_its_noun(count, noun, plural, text):
    assert format_count(count, noun, plural) == text


@pytest.mark.parametrize("text", ["1.5", " 0.5 ", "1.5e0"])
def test_a_fraction_of_a_byte_is_refused_as_text_too(text):
    with pytest.raises(LowtideError, match=r'must be whole.*GiB" for gibibytes'):
        parse_bytes(text)
    assert parse_bytes("1.5e9") == 1_500_000_000
    assert parse_bytes("8.0") == 8
