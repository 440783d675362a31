"""The framing of TFRecord files: a length with its checksum, the data, and their checksum."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import google_crc32c

from lowtide.sources.graphs.mapped_file import release
from lowtide.sources.protobuf.wire import OPEN_END, Buffer

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
# The number of bytes whose checksum is computed at once.
_PIECE = 1 << 20
# The number of bytes that are searched for the next record after a damaged length.
_SEARCHED = 1 << 20


class TFRecord(NamedTuple):
    """The byte range of the data of a record, and whether its checksums match."""

    start: int
    end: int
    """Past the end of a file that is cut."""
    is_intact: bool
    """Whether the checksums that are present match."""


def read_records(data: Buffer, note: Callable[[str], None]) -> Iterator[TFRecord]:
    """Yield every readable record, and note what is wrong with the file."""
    position, left = 0, _SEARCHED
    released = 0
    while position + _HEADER.size <= len(data):
        length = read_length(data, position)
        is_trusted = length is not None
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
        yield TFRecord(start, end, is_trusted and _matches(data, start, end))
        position = end + _FOOTER.size
        if position - released > _PIECE:
            release(data, released, min(position, len(data)))
            released = position
    if position != len(data):
        note("the file ends in the middle of a record: it was cut, or is still being written")


def read_length(data: Buffer, position: int) -> int | None:
    """Return the length in a record's header; None if the header's checksum does not match."""
    header = data[position : position + _HEADER.size]
    if len(header) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack(header)
    return length if length < OPEN_END and masked_checksum(google_crc32c.value(header[:8])) == checksum else None


def _claimed_length(data: Buffer, position: int) -> int | None:
    """Return the length in a damaged header if it leads to the next record or to the end of the file."""
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
    """Whether the data match the checksum that follows; True if the data are cut."""
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
    """Return a checksum as TFRecord files store it: rotated and offset."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
