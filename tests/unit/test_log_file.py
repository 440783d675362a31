"""The lines of a log, whatever it is wrapped in."""

import bz2
import gzip
import lzma
import tracemalloc

import pytest

from lowtide.errors import LowtideError
from lowtide.oom.log_file import read_log_lines

LINES = [b"Epoch 1/3", b"", b"W OOM when", b"the end \xc3\xa4"]
TEXT = b"\n".join(LINES)


def in_blocks(content: bytes, size: int) -> list[bytes]:
    return [content[start : start + size] for start in range(0, len(content), size)]


WRAPPED = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT),
    "rotated": gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:]),
    "utf-16": TEXT.decode().encode("utf-16"),
    "utf-16 without a mark": TEXT.decode().encode("utf-16-le"),
    "big-endian without a mark": TEXT.decode().encode("utf-16-be"),
    "zeros of a truncated file": b"\0" * 9000 + TEXT,
    "zeros inside": TEXT[:5] + b"\0\0\0" + TEXT[5:],
    "utf-16 in gzip": gzip.compress(TEXT.decode().encode("utf-16")),
}


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("size", [5, 16, 1 << 20])
def test_lines_are_the_same_however_they_come(wrapped, size):
    assert list(read_log_lines(in_blocks(WRAPPED[wrapped], size), "a.log")) == LINES


def test_the_last_line_may_have_its_end():
    assert list(read_log_lines([TEXT + b"\n"], "a.log")) == LINES
    assert list(read_log_lines([], "a.log")) == []


def test_a_compressed_log_that_is_cut_off_counts_as_far_as_it_goes():
    content = gzip.compress(b"line\n" * 10_000, compresslevel=0)
    lines = list(read_log_lines([content[: len(content) // 2]], "a.log"))
    assert 4_000 < len(lines) < 6_000
    assert set(lines[:-1]) == {b"line"}


def test_damage_is_one_line():
    content = bytearray(gzip.compress(bytes(range(1, 200)) * 50))
    content[40:60] = b"\xff" * 20
    with pytest.raises(LowtideError, match="decompress"):
        list(read_log_lines([bytes(content)], "a.log"))
    with pytest.raises(LowtideError, match="not text"):
        list(read_log_lines([b"\x7fELF\0\0\0"], "a.log"))


@pytest.mark.parametrize(
    ("content", "command"),
    [(bz2.compress(TEXT), "bzcat"), (lzma.compress(TEXT), "xzcat"), (b"\x28\xb5\x2f\xfd\x04", "zstdcat")],
)
def test_other_compressed_files_say_how_to_read_them(content, command):
    with pytest.raises(LowtideError, match=rf"{command} a.log.x \| lowtide explain -"):
        list(read_log_lines([content], "a.log.x"))


def test_a_file_of_zeros_is_empty():
    assert list(read_log_lines([b"\0" * 5000] * 3, "a.log")) == []


def test_of_a_line_without_end_only_the_end_is_kept():
    blocks = [b"x" * (1 << 20)] * 40
    tracemalloc.start()
    try:
        (line,) = read_log_lines([*blocks, b"OOM when"], "a.log")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert line.endswith(b"xOOM when")
    assert peak < 16 << 20
