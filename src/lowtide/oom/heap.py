"""An allocator's memory at one moment: the blocks in use, the free blocks, and the bytes it could still obtain.

`read_memory_dump` reads the file that TensorFlow's BFC allocator writes when a request fails and the environment
variable `TF_BFC_MEMORY_DUMP` is set to a prefix: `<prefix>_<allocator>.<microseconds>`, a protocol buffer. Each attempt
that fails writes one, and TensorFlow tries four times within ten seconds before it gives up. Files never overwrite each
other: the last one shows the moment of the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lowtide.errors import LowtideError
from lowtide.sources.protobuf.wire import WireError, read_fields

# The fields of MemoryDump, MemChunk and MemAllocatorStats in tsl/protobuf/bfc_memory_map.proto.
_ALLOCATOR_NAME, _CHUNK, _STATS = 1, 3, 5
_ADDRESS, _SIZE, _REQUESTED_SIZE, _IN_USE = 1, 2, 3, 8
_BYTES_IN_USE, _PEAK_BYTES_IN_USE = 2, 3


@dataclass(frozen=True, eq=False)
class Heap:
    """The blocks of one allocator as columns, ordered by address."""

    address: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    requested: npt.NDArray[np.int64]
    """The requested bytes of each block; 0 if not known."""
    in_use: npt.NDArray[np.bool_]
    limit_bytes: int | None = None
    bytes_in_use: int | None = None
    peak_bytes: int | None = None
    allocator: str | None = None
    available_bytes: int | None = None
    """The bytes that can still be obtained from the system, if the allocator reports them."""
    complete: bool = True
    """Whether every block is listed; False for a log that was cut off."""

    def __len__(self) -> int:
        return len(self.size)

    @property
    def reserved_bytes(self) -> int | None:
        """The bytes obtained from the system: all blocks, free or in use."""
        return int(self.size.sum()) if self.complete else None

    @property
    def extension_bytes(self) -> int | None:
        """The largest block that could still be obtained from the system."""
        if self.available_bytes is not None:
            return self.available_bytes
        if self.limit_bytes is None or self.reserved_bytes is None:
            return None
        return max(0, self.limit_bytes - self.reserved_bytes)

    @property
    def free_bytes(self) -> int | None:
        """The free blocks plus the bytes that could still be obtained; None if either is not known."""
        if self.complete and self.extension_bytes is not None:
            return int(self.size[~self.in_use].sum()) + self.extension_bytes
        if self.limit_bytes is None or self.bytes_in_use is None:
            return None
        return max(0, self.limit_bytes - self.bytes_in_use)

    @property
    def largest_free_bytes(self) -> int | None:
        """The largest request that can be served: the largest free block, or a new one from the system."""
        if not self.complete or self.extension_bytes is None:
            return None
        return max(int(self.size[~self.in_use].max(initial=0)), self.extension_bytes)

    def held_by_size(self) -> tuple[tuple[int, int], ...]:
        """Return the sizes of the blocks in use and their counts, the size with the most bytes first."""
        sizes, counts = np.unique(self.size[self.in_use], return_counts=True)
        order = np.argsort(-sizes * counts, kind="stable")
        return tuple((int(sizes[row]), int(counts[row])) for row in order)


def build_heap(
    blocks: npt.ArrayLike,
    *,
    limit_bytes: int | None = None,
    bytes_in_use: int | None = None,
    peak_bytes: int | None = None,
    allocator: str | None = None,
    available_bytes: int | None = None,
    complete: bool = True,
) -> Heap:
    """Return a heap of blocks in any order; each is an address, a size, the requested bytes and an in-use flag."""
    columns = np.asarray(blocks, np.int64).reshape(-1, 4)
    columns = columns[np.argsort(columns[:, 0], kind="stable")]
    address, size, requested, in_use = (np.ascontiguousarray(column) for column in columns.T)
    return Heap(
        address,
        size,
        requested,
        in_use.astype(np.bool_),
        limit_bytes=limit_bytes,
        bytes_in_use=bytes_in_use,
        peak_bytes=peak_bytes,
        allocator=allocator,
        available_bytes=available_bytes,
        complete=complete,
    )


def read_memory_dump(path: str | PathLike[str], *, limit_bytes: int | None = None) -> Heap:
    """Read a file that `TF_BFC_MEMORY_DUMP` wrote; the file does not contain the limit."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise LowtideError(f"cannot read the memory dump: {error.strerror}", given=fspath(path)) from error
    try:
        heap = _parse_dump(content, limit_bytes)
    except (WireError, UnicodeDecodeError, TypeError, OverflowError) as error:
        raise _not_a_dump(path, str(error)) from error
    if heap.allocator is None or heap.bytes_in_use is None:
        raise _not_a_dump(path, "it names no allocator, or was cut off")
    return heap


def _parse_dump(content: bytes, limit_bytes: int | None) -> Heap:
    allocator: str | None = None
    stats: dict[int, int] | None = None
    blocks = []
    for number, value in read_fields(content):
        if number == _ALLOCATOR_NAME:
            allocator = _bytes(value).decode("utf-8")
        elif number == _CHUNK:
            chunk = _numbers(_bytes(value))
            requested, in_use = chunk.get(_REQUESTED_SIZE, 0), bool(chunk.get(_IN_USE, 0))
            # A free block keeps the requested bytes of its last use.
            blocks.append((chunk.get(_ADDRESS, 0), chunk.get(_SIZE, 0), requested if in_use else 0, in_use))
        elif number == _STATS:
            stats = _numbers(_bytes(value))
    # The file omits numbers that are 0.
    return build_heap(
        blocks,
        limit_bytes=limit_bytes,
        bytes_in_use=None if stats is None else stats.get(_BYTES_IN_USE, 0),
        peak_bytes=None if stats is None else stats.get(_PEAK_BYTES_IN_USE, 0),
        allocator=allocator,
    )


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise WireError("found a number instead of a message")
    return value


def _numbers(message: bytes) -> dict[int, int]:
    return {number: value for number, value in read_fields(message) if isinstance(value, int)}


def _not_a_dump(path: str | PathLike[str], why: str) -> LowtideError:
    return LowtideError(
        f"not a memory dump: {why}", given=fspath(path), cure="give a file that TF_BFC_MEMORY_DUMP=<prefix> wrote"
    )
