"""The lines of a log file (plain, gzip or UTF-16), read in bounded memory."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain

from lowtide.errors import LowtideError

# Of a longer line the end is kept: a progress bar overwrites itself, and the error follows it.
_LONGEST_LINE = 1 << 20
_BLOCK = 1 << 20

_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# The number of bytes that identify the encoding.
_START = 4096


def read_log_lines(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines without their line ends; `name` identifies the log in error messages."""
    start, blocks = _peek(blocks)
    if start.startswith(_GZIP):
        start, blocks = _peek(_inflate(blocks, name))
    if start.startswith(_UTF_16):
        # PowerShell writes UTF-16 for `python train.py 2> train.log`.
        blocks = _recode(blocks)
    elif b"\0" in start[:_START]:
        raise LowtideError(
            "neither a tide nor a log: it is not text",
            given=name,
            cure="give a .tide file, or a text file with TensorFlow's messages",
        )
    rest = b""
    for block in blocks:
        lines = (rest + block).split(b"\n")
        rest = lines.pop()[-_LONGEST_LINE:]
        yield from lines
    if rest:
        yield rest


def _peek(blocks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    blocks, start = iter(blocks), b""
    for block in blocks:
        start += block
        if len(start) >= _START:
            break
    return start, chain([start], blocks)


def _inflate(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the decompressed data; a truncated file yields what it contains, as a log may still be growing."""
    member = zlib.decompressobj(wbits=31)
    for block in blocks:
        while block:
            try:
                yield member.decompress(block, _BLOCK)
            except zlib.error as error:
                raise LowtideError(f"cannot decompress the log: {error}", given=name) from error
            block = member.unconsumed_tail
            if member.eof:
                # A rotated log may consist of several gzip members.
                block, member = member.unused_data.lstrip(b"\0"), zlib.decompressobj(wbits=31)
    yield member.flush()


def _recode(blocks: Iterator[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8")
    yield decoder.decode(b"", final=True).encode("utf-8")
