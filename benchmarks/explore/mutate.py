"""Damage to files, as from a bad disk, a full disk or an attacker."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Sequence
from random import Random

import google_crc32c

# Lengths that are too large, numbers without end, and what opens messages in each of the forms.
_TREASURES = (
    b"\xff" * 9 + b"\x01",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80" * 12,
    b"\x00" * 8,
    b"\xff" * 8,
    b"\x0a\x00",
    b"\x12\x7f",
    b"\x0b\x0c",
    b"{" * 50,
    b"[" * 50,
    b"\\",
    b'"',
    b"#",
    b"''",
    b"'}'",
    b"node {",
    b'{"config":{"layers":[',
    b"-1e999",
    b"\xed\xa0\x80",
)
_MOST_EDITS = 8
# Sound frames around damaged content reach what a checksum would keep away.
_REFRAMED = 0.6


def mutate(seeds: Sequence[bytes], number: int) -> bytes:
    """The damaged file of this number, the same every time."""
    random = Random(number)
    seed = random.choice(seeds)
    if random.random() < _REFRAMED:
        if (records := _records(seed)) is not None:
            which = random.randrange(len(records))
            records[which] = _edit(records[which], seeds, random)
            return b"".join(map(_frame, records))
        if seed[:2] == b"PK":
            return _repack(seed, seeds, random)
    return _edit(seed, seeds, random)


def _edit(data: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, _MOST_EDITS)):
        at = random.randrange(len(changed) + 1)
        # Most things of interest are small, and some are not.
        size = random.choice((1, 2, 4, 16, max(1, len(changed) // 4)))
        _CHANGES[random.randrange(len(_CHANGES))](changed, at, size, seeds, random)
    return bytes(changed)


def _flip(data: bytearray, at: int, size: int, seeds: Sequence[bytes], random: Random) -> None:
    if at < len(data):
        data[at] ^= 1 << random.randrange(8)


def _drop(data: bytearray, at: int, size: int, seeds: Sequence[bytes], random: Random) -> None:
    del data[at : at + size]


def _double(data: bytearray, at: int, size: int, seeds: Sequence[bytes], random: Random) -> None:
    data[at:at] = data[at : at + size]


def _overwrite(data: bytearray, at: int, size: int, seeds: Sequence[bytes], random: Random) -> None:
    data[at : at + size] = random.randbytes(min(size, 64))


def _insert(data: bytearray, at: int, size: int, seeds: Sequence[bytes], random: Random) -> None:
    data[at:at] = random.choice(_TREASURES)


def _splice(data: bytearray, at: int, size: int, seeds: Sequence[bytes], random: Random) -> None:
    other = random.choice(seeds)
    start = random.randrange(len(other) + 1)
    data[at : at + size] = other[start : start + size]


def _cut(data: bytearray, at: int, size: int, seeds: Sequence[bytes], random: Random) -> None:
    # Damage near the beginning matters less when nothing is left behind it.
    del data[max(at, len(data) // 2) :]


_CHANGES = (_flip, _flip, _drop, _double, _overwrite, _insert, _insert, _splice, _cut)


def _records(data: bytes) -> list[bytes] | None:
    """The contents of a TFRecord file that is sound; None of any other file."""
    contents, position = [], 0
    while position < len(data):
        if position + 16 > len(data):
            return None
        (length,) = struct.unpack_from("<Q", data, position)
        content = data[position + 12 : position + 12 + length]
        if len(content) != length or data[position : position + 16 + length] != _frame(content):
            return None
        contents.append(content)
        position += 16 + length
    return contents or None


def _frame(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def _checksum(data: bytes) -> bytes:
    value = google_crc32c.value(data)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _repack(seed: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    """The same archive with one member damaged inside."""
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(seed)) as source, zipfile.ZipFile(content, "w") as target:
        names = source.namelist()
        which = random.choice([name for name in names if name.endswith(".json")] or names)
        for name in names:
            data = source.read(name)
            target.writestr(name, _edit(data, seeds, random) if name == which else data)
    return content.getvalue()
