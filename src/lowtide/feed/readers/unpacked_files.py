"""Compressed data, unpacked once to a temporary file for random access."""

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
from lowtide.feed.progress_bar import ProgressBar
from lowtide.units import format_bytes, format_bytes_up

_PIECE = 1 << 20  # bytes
_GZIP = b"\x1f\x8b"
_CURE = "write it again; it may be truncated"


class DamagedArchive(LowtideError):
    """Compressed data that cannot be unpacked."""


class UnpackedFile:
    """An anonymous temporary file: the system removes it once it is closed and no longer mapped."""

    def __init__(self) -> None:
        # The tempfile module reads TMPDIR only once, but a notebook may set it after an error.
        self.folder = os.environ.get("TMPDIR") or tempfile.gettempdir()
        self.bytes = 0
        self.spans: list[tuple[int, int]] = []
        """The start and end offsets of each unpacked file."""
        self.problems: list[str] = []
        try:
            self.file: BinaryIO = tempfile.TemporaryFile(dir=self.folder, prefix="lowtide-")  # noqa: SIM115
        except OSError as error:
            raise LowtideError(
                "compressed files cannot be unpacked",
                given=error,
                cure="set TMPDIR to a folder on a disk with room",
            ) from error
        weakref.finalize(self, self.file.close)

    def append(self, pieces: Iterator[bytes], name: str, total_bytes: int | None, least_bytes: int = 0) -> None:
        """Append a file; `least_bytes` is a lower bound of its size if `total_bytes` is unknown."""
        check_disk_space(self.folder, total_bytes or least_bytes, name)
        begin = self.bytes
        with ProgressBar(f"unpacking {os.path.basename(name)}", total_bytes, in_bytes=True) as bar:
            for piece in pieces:
                try:
                    self.file.write(piece)
                    self.file.flush()
                except OSError as error:
                    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                        raise
                    raise _disk_full(self.folder, self.bytes + len(piece) - begin, 0, name) from error
                self.bytes += len(piece)
                bar.advance(len(piece))

    def describe(self) -> str:
        return f"unpacked once: {format_bytes(self.bytes)} of disk in {self.folder}, removed when no longer used"


def check_disk_space(folder: str, needed_bytes: int, name: str) -> None:
    """Refuse to unpack a file that the disk has no room for."""
    free = shutil.disk_usage(folder).free
    if needed_bytes > free:
        raise _disk_full(folder, needed_bytes, free, name)


def _disk_full(folder: str, needed_bytes: int, free: int, name: str) -> LowtideError:
    return LowtideError(
        f"{name} is compressed, and {folder} has no room to unpack it",
        given=f"{format_bytes(free)} free",
        cure=f"it takes at least {format_bytes_up(needed_bytes)}: set TMPDIR to a folder with more room",
    )


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Iterator[bytes]:
    """Yield the content of a member of an archive in pieces, and verify it."""
    seen = 0
    try:
        with archive.open(info) as member:
            while piece := member.read(_PIECE):
                seen += len(piece)
                yield piece
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise DamagedArchive(f"{name} cannot be unpacked: {error}", given=f"byte {seen:,}", cure=_CURE) from error


def read_stream(path: str) -> Iterator[bytes]:
    """Yield the content of a gzip or zlib file in pieces, and verify it."""
    seen = 0
    try:
        for piece in _unpack_stream(path):
            seen += len(piece)
            yield piece
    except (zlib.error, EOFError) as error:
        raise DamagedArchive(f"{path} cannot be unpacked: {error}", given=f"byte {seen:,}", cure=_CURE) from error


def _unpack_stream(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
        while packed := unpacker.unconsumed_tail or file.read(_PIECE):
            yield unpacker.decompress(packed, _PIECE)
            # A gzip file may have several streams, followed by zeros as padding.
            while unpacker.eof and (more := unpacker.unused_data.lstrip(b"\0") or file.read(_PIECE).lstrip(b"\0")):
                unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
                yield unpacker.decompress(more, _PIECE)
            if unpacker.eof:
                return
        yield unpacker.flush()
        if not unpacker.eof:
            raise EOFError("it ends too early")


def estimate_unpacked_bytes(path: str) -> int:
    """A likely lower bound: the last four bytes of a gzip file are its unpacked size modulo 4 GiB."""
    with open(path, "rb") as file:
        is_gzip = file.read(2) == _GZIP
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 4, 0))
        stated = int.from_bytes(file.read(4), "little") if is_gzip else 0
    return max(size, stated)


def is_compressed(head: bytes) -> bool:
    """Whether a file that begins with `head` is a gzip or zlib file."""
    is_zlib = len(head) > 1 and head[0] == 0x78 and int.from_bytes(head[:2]) % 31 == 0
    return head[:2] == _GZIP or is_zlib


_UNPACKED: weakref.WeakValueDictionary[tuple[object, ...], UnpackedFile] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def unpack_once(paths: list[str], which: str, unpack: Callable[[], UnpackedFile]) -> UnpackedFile:
    """Return the unpacked copy of some files that is still in use, or unpack them now."""
    states = [(os.path.realpath(path), os.stat(path)) for path in paths]
    key = (which, *((path, state.st_size, state.st_mtime_ns, state.st_ino) for path, state in states))
    with _LOCK:
        found = _UNPACKED.get(key)
        if found is None:
            found = _UNPACKED[key] = unpack()
        return found
