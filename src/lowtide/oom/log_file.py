"""The lines of a log: plain, compressed with gzip, or in UTF-16; takes bounded memory, however long it is."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain

from lowtide.errors import LowtideError

# The end of a longer line is what counts: a progress bar writes over itself, and the error comes after it.
_LONGEST_LINE = 1 << 20
_BLOCK = 1 << 20

_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# How much tells what a file is.
_START = 4096


def read_log_lines(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines, without their ends; `name` is what an error calls the log."""
    start, blocks = _peek(blocks)
    if start.startswith(_GZIP):
        start, blocks = _peek(_inflate(blocks, name))
    if start.startswith(_UTF_16):
        # What PowerShell writes for `python train.py 2> train.log`.
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
    """Yield what was compressed. Where the data end too early, what came before counts: a log may still be written."""
    member = zlib.decompressobj(wbits=31)
    for block in blocks:
        while block:
            try:
                yield member.decompress(block, _BLOCK)
            except zlib.error as error:
                raise LowtideError(f"cannot decompress the log: {error}", given=name) from error
            block = member.unconsumed_tail
            if member.eof:
                # Logs that are rotated are one gzip file after the other.
                block, member = member.unused_data.lstrip(b"\0"), zlib.decompressobj(wbits=31)
    yield member.flush()


def _recode(blocks: Iterator[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8")
    yield decoder.decode(b"", final=True).encode("utf-8")
