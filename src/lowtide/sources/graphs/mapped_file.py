"""Memory-mapped files."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lowtide.errors import LowtideError
from lowtide.sources.protobuf.wire import Buffer


@contextmanager
def map_file(path: Path) -> Iterator[Buffer]:
    """Map a file into memory, with its size at the time of the call."""
    try:
        # Opening a pipe would block until another process writes to it.
        if path.exists() and not path.is_file():
            raise LowtideError("not a file that can be read", given=path, cure="give a file")
        with path.open("rb") as file:
            # An empty file cannot be mapped.
            if path.stat().st_size == 0:
                yield b""
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield data
    except OSError as error:
        raise LowtideError(f"cannot read the file: {error.strerror}", given=path) from error


def release(data: Buffer, start: int, end: int) -> None:
    """Release pages that were read, so that a walk through a file takes constant memory."""
    first, last = start // mmap.PAGESIZE * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
    if isinstance(data, mmap.mmap) and first < last and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED, first, last - first)
