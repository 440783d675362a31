"""Compressed data, unpacked once to a file on the disk so that they can be read at random."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from lowtide.errors import LowtideError
from lowtide.feed.progress_bar import Bar
from lowtide.units import format_bytes

_PIECE = 1 << 20
_GZIP = b"\x1f\x8b"
_CUT = "write it again; it may be cut off"


class Damaged(LowtideError):
    """Compressed data that are not as they were written."""


class Unpacked:
    """A file without a name: the system removes it when nobody maps it any more, whatever ends the process."""

    def __init__(self) -> None:
        # Python asks for TMPDIR only once, but a notebook may set it after an error.
        self.folder = os.environ.get("TMPDIR") or tempfile.gettempdir()
        self.bytes = 0
        self.spans: list[tuple[int, int]] = []
        """Where each of several files begins and ends in it."""
        self.problems: list[str] = []
        try:
            self.file: BinaryIO = tempfile.TemporaryFile(dir=self.folder, prefix="lowtide-")  # noqa: SIM115
        except OSError as error:
            raise LowtideError(
                "what is compressed cannot be unpacked", given=error, cure="set TMPDIR to a folder on a disk with room"
            ) from error
        weakref.finalize(self, self.file.close)

    def add(self, pieces: Iterator[bytes], name: str, whole_bytes: int | None, least_bytes: int = 0) -> None:
        """Write what comes behind what is there; if nobody knows how much it is, then at least so much."""
        check_room(self.folder, whole_bytes or least_bytes, name)
        begin = self.bytes
        with Bar(f"unpacking {os.path.basename(name)}", whole_bytes, in_bytes=True) as bar:
            for piece in pieces:
                try:
                    self.file.write(piece)
                    self.file.flush()
                except OSError as error:
                    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                        raise
                    raise _no_room(self.folder, self.bytes + len(piece) - begin, 0, name) from error
                self.bytes += len(piece)
                bar.advance(len(piece))

    def describe(self) -> str:
        return f"unpacked once: {format_bytes(self.bytes)} of disk in {self.folder}, until nobody uses it"


def check_room(folder: str, needed_bytes: int, name: str) -> None:
    """Refuse to unpack what the disk has no room for."""
    free = shutil.disk_usage(folder).free
    if needed_bytes > free:
        raise _no_room(folder, needed_bytes, free, name)


def _no_room(folder: str, needed_bytes: int, free: int, name: str) -> LowtideError:
    return LowtideError(
        f"{name} is compressed, and {folder} has no room to unpack it",
        given=f"{format_bytes(free)} free",
        cure=f"it takes at least {format_bytes(needed_bytes)}: set TMPDIR to a folder with more room",
    )


def member_pieces(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Iterator[bytes]:
    """The content of a member of an archive, a piece at a time, which is as it was written."""
    seen = 0
    try:
        with archive.open(info) as member:
            while piece := member.read(_PIECE):
                seen += len(piece)
                yield piece
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise Damaged(f"{name} cannot be unpacked: {error}", given=f"byte {seen:,}", cure=_CUT) from error


def stream_pieces(path: str) -> Iterator[bytes]:
    """The content of a file that gzip or zlib has written, a piece at a time, which is as it was written."""
    seen = 0
    try:
        for piece in _unpack_stream(path):
            seen += len(piece)
            yield piece
    except (zlib.error, EOFError) as error:
        raise Damaged(f"{path} cannot be unpacked: {error}", given=f"byte {seen:,}", cure=_CUT) from error


def _unpack_stream(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
        while packed := unpacker.unconsumed_tail or file.read(_PIECE):
            yield unpacker.decompress(packed, _PIECE)
            # What gzip has written may be several streams one after the other, and zeros where a tape was filled up.
            while unpacker.eof and (more := unpacker.unused_data.lstrip(b"\0") or file.read(_PIECE).lstrip(b"\0")):
                unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
                yield unpacker.decompress(more, _PIECE)
            if unpacker.eof:
                return
        yield unpacker.flush()
        if not unpacker.eof:
            raise EOFError("it ends too early")


def least_unpacked(path: str) -> int:
    """The least that a file is likely to take: its last four bytes say how much gzip has packed, modulo 4 GiB."""
    with open(path, "rb") as file:
        is_gzip = file.read(2) == _GZIP
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 4, 0))
        said = int.from_bytes(file.read(4), "little") if is_gzip else 0
    return max(size, said)


def is_packed(head: bytes) -> bool:
    """Whether a file begins as gzip or zlib write it."""
    is_zlib = len(head) > 1 and head[0] == 0x78 and int.from_bytes(head[:2]) % 31 == 0
    return head[:2] == _GZIP or is_zlib


_KNOWN: weakref.WeakValueDictionary[tuple[object, ...], Unpacked] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def unpacked_once(paths: list[str], which: str, make: Callable[[], Unpacked]) -> Unpacked:
    """What was unpacked of some files and is still in use, or what is unpacked now."""
    states = [(os.path.realpath(path), os.stat(path)) for path in paths]
    key = (which, *((path, state.st_size, state.st_mtime_ns, state.st_ino) for path, state in states))
    with _LOCK:
        found = _KNOWN.get(key)
        if found is None:
            found = _KNOWN[key] = make()
        return found
