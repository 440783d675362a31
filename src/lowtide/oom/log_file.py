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
# Compressed forms that are not read here, and the command that reads them.
_COMPRESSED = {b"BZh": "bzcat", b"\xfd7zXZ": "xzcat", b"\x28\xb5\x2f\xfd": "zstdcat", b"PK\x03\x04": "unzip -p"}
# The number of bytes that identify the encoding.
_START = 4096
# Of these bytes text has next to none: control characters other than tabs, ends of lines and colours.
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n\r\f\b\x1b\x07\0")
_MOST_CONTROLS = 0.02


def read_log_lines(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines without their line ends; `name` identifies the log in error messages."""
    start, blocks = _peek(blocks)
    if start.startswith(_GZIP):
        start, blocks = _peek(_inflate(blocks, name))
    for magic, command in _COMPRESSED.items():
        if start.startswith(magic):
            raise LowtideError(
                "neither a tide nor a log: it is compressed", given=name, cure=f"{command} {name} | lowtide explain -"
            )
    encoding = _find_utf_16(start)
    if encoding is not None:
        # PowerShell writes UTF-16 for `python train.py 2> train.log`.
        blocks = _recode(blocks, encoding)
    elif not _is_text(start):
        raise LowtideError(
            "neither a tide nor a log: it is not text",
            given=name,
            cure="give a .tide file, or a text file with TensorFlow's messages",
        )
    rest = b""
    for block in blocks:
        lines = (rest + block.replace(b"\0", b"")).split(b"\n")
        rest = lines.pop()[-_LONGEST_LINE:]
        yield from lines
    if rest:
        yield rest


def _peek(blocks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    blocks, start = iter(blocks), b""
    for block in blocks:
        if not start and not block.strip(b"\0"):
            # A log that was truncated while a program wrote it begins with zeros.
            continue
        start += block
        if len(start) >= _START:
            break
    return start, chain([start], blocks)


def _find_utf_16(start: bytes) -> str | None:
    """Return the name of the encoding if it is UTF-16, by its mark or by its zeros."""
    if start.startswith(_UTF_16):
        return "utf-16"
    sample = start[:_START]
    half = len(sample) // 2
    zeros = [sample[offset::2].count(0) for offset in (0, 1)]
    if half and max(zeros) > 0.6 * half and min(zeros) < 0.1 * half:
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    return None


def _is_text(start: bytes) -> bool:
    """Whether the beginning of a file is text, perhaps after zeros."""
    sample = start.lstrip(b"\0")[:_START]
    shown = sample.replace(b"\0", b"")
    controls = len(shown) - len(shown.translate(None, _CONTROLS))
    return len(shown) >= len(sample) / 2 and controls <= _MOST_CONTROLS * len(shown)


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


def _recode(blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8")
    yield decoder.decode(b"", final=True).encode("utf-8")
