"""The framing of TFRecord files: a length with its checksum, so many bytes, and their checksum."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import google_crc32c

from lowtide.sources.graphs.mapped_file import release
from lowtide.sources.protobuf.wire import OPEN_END, Buffer

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
# How much of a record is looked at in one piece.
_PIECE = 1 << 20
# How many bytes of a file are searched for the next record, where lengths cannot be believed.
_SEARCHED = 1 << 20


class Record(NamedTuple):
    """Where the data of a record lie, and what its checksums say of it."""

    start: int
    end: int
    """Past the end of a file that is cut."""
    is_intact: bool
    """Whether the checksums match, as far as they are there."""


def read_records(data: Buffer, note: Callable[[str], None]) -> Iterator[Record]:
    """Yield every record that can be made out, and note what is wrong with the file."""
    position, left = 0, _SEARCHED
    released = 0
    while position + _HEADER.size <= len(data):
        length = read_length(data, position)
        believed = length is not None
        if length is None:
            length = _claimed_length(data, position)
        if length is None:
            found = _find_header(data, position + 1, left)
            if found is None:
                note(f"the length of the record at byte {position:,} is damaged; what follows it cannot be read")
                return
            note(f"the bytes {position:,} to {found:,} are no record")
            position, left = found, left - (found - position)
            continue
        start = position + _HEADER.size
        end = start + length
        yield Record(start, end, believed and _matches(data, start, end))
        position = end + _FOOTER.size
        if position - released > _PIECE:
            release(data, released, min(position, len(data)))
            released = position
    if position != len(data):
        note("the file ends in the middle of a record: it was cut, or is still being written")


def read_length(data: Buffer, position: int) -> int | None:
    """The length of the record whose header is here; None if the header's checksum does not match."""
    header = data[position : position + _HEADER.size]
    if len(header) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack(header)
    return length if length < OPEN_END and masked_checksum(google_crc32c.value(header[:8])) == checksum else None


def _claimed_length(data: Buffer, position: int) -> int | None:
    """The length in a header that is damaged, if it leads to the next record or to the end of the file."""
    (length,) = struct.unpack_from("<Q", data, position)
    behind = position + _HEADER.size + length + _FOOTER.size
    return length if behind == len(data) or read_length(data, behind) is not None else None


def _find_header(data: Buffer, position: int, searched: int) -> int | None:
    for candidate in range(position, min(position + searched, len(data) - _HEADER.size)):
        length = read_length(data, candidate)
        if length is not None and candidate + _HEADER.size + length <= len(data):
            return candidate
    return None


def _matches(data: Buffer, start: int, end: int) -> bool:
    """Whether the data have the checksum behind them. Of data that are cut nothing is known."""
    footer = data[end : end + _FOOTER.size] if end < len(data) else b""
    if len(footer) < _FOOTER.size:
        return True
    checksum = 0
    for piece in range(start, end, _PIECE):
        last = min(piece + _PIECE, end)
        checksum = google_crc32c.extend(checksum, data[piece:last])
        if last < end:
            release(data, piece, last)
    return footer == _FOOTER.pack(masked_checksum(checksum))


def masked_checksum(checksum: int) -> int:
    """A checksum as it is stored: turned and shifted, so that checksums of checksums stay useful."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
