"""An exact model of TensorFlow's BFC (best fit with coalescing) allocator, without TensorFlow.

The allocator counts whole chunks as in use, not the requested bytes, and which chunk a request
gets depends on every request before it. So the bytes in use of a step are found by
replaying its requests in a model of the allocator. The rules, as TensorFlow 2.21 has them:

* Sizes are rounded up to 256 bytes. The alignment a caller asks for plays no part in choosing a
  chunk; it only reaches the operating system when a region is fetched.
* The smallest free chunk that is large enough is taken; among equals the one with the lowest
  address. TensorFlow keeps free chunks in 21 bins by powers of two, each sorted by size and
  address, and searches upwards from the bin of the request. The bins are ordered by size too, so
  one list sorted by size and address, as this model has it, gives the same chunk.
* A chunk is split if the rest is at least as large as the request, or at least 128 MiB. Otherwise
  the request gets all of it: a 400 MiB tensor in a fresh 512 MiB region takes 512 MiB.
* A freed chunk is merged at once with a free neighbour on either side.
* Without a chunk that fits, a region is fetched: 2 MiB at first, twice the size for every later
  one, doubled further until the request fits. Regions are never given back: the CPU allocator does
  not collect garbage.
* Regions of the CPU allocator are not merged, not even adjacent ones.
* The limit counts fetched regions, not bytes in use. The last region is cut to what the limit
  leaves; a request that does not fit into that fails, however much is free in smaller pieces.

Two things are left out because they do not belong to a step's memory. TensorFlow waits up to ten
seconds for another thread to free something before it gives up, and it tries smaller regions if
the operating system refuses one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LowtideError
from lowtide.units import format_bytes

GRANULE_BYTES = 256
FIRST_REGION_BYTES = 2 << 20
LARGEST_WASTE_BYTES = 128 << 20

# A free chunk is one integer, its size above its address, so that comparing integers is comparing
# by size and then by address. Addresses of user space take 47 bits, but a step that fits no machine
# is predicted too: regions up to `LARGEST_ADDRESS_SPACE_BYTES` in all have room on both sides of the middle.
_ADDRESS_BITS = 62
_ADDRESS_MASK = (1 << _ADDRESS_BITS) - 1
_MIDDLE_ADDRESS = 1 << (_ADDRESS_BITS - 1)
LARGEST_ADDRESS_SPACE_BYTES = 1 << (_ADDRESS_BITS - 2)

# Regions placed by this model keep a page between them: what malloc hands out is never adjacent
# (its own header lies between), and chunks of two regions must not look like neighbours.
_REGION_GAP_BYTES = 4096


class Region(NamedTuple):
    """Memory fetched from the operating system in one piece."""

    address: int
    size_bytes: int


class Chunk(NamedTuple):
    """A piece of a region, in use as a whole or free as a whole."""

    address: int
    size_bytes: int
    in_use: bool


class Replay(NamedTuple):
    """The result of replaying a stream of allocations and frees."""

    bytes_in_use: NDArray[np.int64]  # after every event
    allocated_bytes: NDArray[np.int64]  # per buffer, of its latest chunk; 0 if it never had one
    addresses: list[int | None]  # per buffer, None if it is not alive at the end


PlaceRegion = Callable[[int, Sequence[Region]], int]


def place_below(size_bytes: int, regions: Sequence[Region]) -> int:
    """Put a region under all others: Linux maps large blocks from the top downwards.

    A process that has freed large blocks before gets regions under 32 MiB from malloc's heap
    instead, upwards and below all mapped ones. Which order holds cannot be known beforehand.
    """
    lowest = min((region.address for region in regions), default=_MIDDLE_ADDRESS)
    return lowest - _REGION_GAP_BYTES - size_bytes


class OutOfMemory(Exception):
    """A request that the allocator cannot serve within its limit."""

    def __init__(
        self,
        requested_bytes: int,
        largest_free_bytes: int,
        bytes_in_use: int,
        reserved_bytes: int,
        limit_bytes: int,
    ) -> None:
        super().__init__(
            f"{requested_bytes} bytes do not fit: {bytes_in_use} in use and {reserved_bytes} "
            f"reserved of {limit_bytes}, largest free chunk {largest_free_bytes}"
        )
        self.requested_bytes = requested_bytes
        self.largest_free_bytes = largest_free_bytes
        self.bytes_in_use = bytes_in_use
        self.reserved_bytes = reserved_bytes
        self.limit_bytes = limit_bytes


class BfcAllocator:
    """The state of one BFC allocator. Without a limit, it always fetches another region."""

    __slots__ = (
        "_free",
        "_free_by_end",
        "_free_by_start",
        "_in_use",
        "_next_region_bytes",
        "_place_region",
        "bytes_in_use",
        "limit_bytes",
        "peak_bytes_in_use",
        "regions",
        "reserved_bytes",
    )

    def __init__(self, limit_bytes: int | None = None, *, place_region: PlaceRegion = place_below) -> None:
        self.limit_bytes = limit_bytes
        self.bytes_in_use = 0
        self.peak_bytes_in_use = 0
        self.reserved_bytes = 0
        self.regions: list[Region] = []
        first = FIRST_REGION_BYTES if limit_bytes is None else min(limit_bytes, FIRST_REGION_BYTES)
        self._next_region_bytes = round_up(first)
        self._place_region = place_region
        self._free: list[int] = []  # keys of free chunks, sorted
        self._free_by_start: dict[int, int] = {}  # first address -> key
        self._free_by_end: dict[int, int] = {}  # address after the last byte -> key
        self._in_use: dict[int, int] = {}  # address -> size

    def allocate(self, requested_bytes: int) -> int | None:
        """Take a chunk and return its address; a request of 0 bytes takes none."""
        if requested_bytes <= 0:
            if requested_bytes < 0:
                raise ValueError(f"cannot allocate a negative size; received {requested_bytes}")
            return None
        rounded = (requested_bytes + GRANULE_BYTES - 1) & -GRANULE_BYTES
        free = self._free
        position = bisect_left(free, rounded << _ADDRESS_BITS)
        if position == len(free):
            self._extend(rounded)
            # Nothing free was large enough before, so the new region alone is.
            position = len(free) - 1
        key = free.pop(position)
        address = key & _ADDRESS_MASK
        size = key >> _ADDRESS_BITS
        del self._free_by_start[address]
        rest = size - rounded
        if rest >= rounded or rest >= LARGEST_WASTE_BYTES:
            start = address + rounded
            rest_key = rest << _ADDRESS_BITS | start
            self._free_by_start[start] = self._free_by_end[address + size] = rest_key
            insort(free, rest_key)
            size = rounded
        else:
            del self._free_by_end[address + size]
        self._in_use[address] = size
        in_use = self.bytes_in_use = self.bytes_in_use + size
        if in_use > self.peak_bytes_in_use:
            self.peak_bytes_in_use = in_use
        return address

    def free(self, address: int | None) -> None:
        """Give a chunk back; freeing the None of an empty request does nothing."""
        if address is None:
            return
        try:
            size = self._in_use.pop(address)
        except KeyError:
            raise ValueError(f"no chunk is in use at address {address}") from None
        self.bytes_in_use -= size
        free = self._free
        end = address + size
        following = self._free_by_start.pop(end, None)
        if following is not None:
            end += following >> _ADDRESS_BITS
            del free[bisect_left(free, following)]
        preceding = self._free_by_end.pop(address, None)
        if preceding is not None:
            address = preceding & _ADDRESS_MASK
            del free[bisect_left(free, preceding)]
        key = (end - address) << _ADDRESS_BITS | address
        self._free_by_start[address] = self._free_by_end[end] = key
        insort(free, key)

    def replay(
        self,
        sizes: Sequence[int] | NDArray[np.integer],
        events: Sequence[int] | NDArray[np.integer],
        addresses: Sequence[int | None] | None = None,
    ) -> Replay:
        """Run a stream of events: `i` allocates `sizes[i]` bytes for buffer i, `~i` frees it.

        The stream continues from the present state. Pass the addresses of one replay to the next
        one if buffers outlive it, and a step can be repeated until it reaches its steady state.
        """
        requested = sizes.tolist() if isinstance(sizes, np.ndarray) else sizes
        stream = events.tolist() if isinstance(events, np.ndarray) else events
        held: list[int | None] = [None] * len(requested) if addresses is None else list(addresses)
        allocated = [0] * len(requested)
        curve = [0] * len(stream)
        allocate, free, in_use = self.allocate, self.free, self._in_use
        for index, event in enumerate(stream):
            if event >= 0:
                if held[event] is not None:
                    raise ValueError(f"event {index}: buffer {event} is already allocated")
                address = allocate(requested[event])
                if address is not None:
                    held[event] = address
                    allocated[event] = in_use[address]
            else:
                buffer = ~event
                address = held[buffer]
                if address is not None:
                    free(address)
                    held[buffer] = None
                elif requested[buffer]:
                    raise ValueError(f"event {index}: buffer {buffer} is not allocated")
            curve[index] = self.bytes_in_use
        return Replay(np.array(curve, np.int64), np.array(allocated, np.int64), held)

    def chunk_bytes(self, address: int) -> int:
        """The size of the chunk in use at an address."""
        return self._in_use[address]

    def chunks(self) -> Iterator[Chunk]:
        """All chunks, in the order of their addresses."""
        free = {start: key >> _ADDRESS_BITS for start, key in self._free_by_start.items()}
        for address in sorted(free.keys() | self._in_use.keys()):
            in_use = address in self._in_use
            size = self._in_use[address] if in_use else free[address]
            yield Chunk(address, size, in_use)

    def largest_free_bytes(self) -> int:
        """The size of the largest free chunk in the regions fetched so far."""
        return self._free[-1] >> _ADDRESS_BITS if self._free else 0

    def reset_peak(self) -> None:
        """Start a new peak at the bytes now in use, as reset_memory_stats does."""
        self.peak_bytes_in_use = self.bytes_in_use

    def _extend(self, rounded_bytes: int) -> None:
        size = self._size_of_next_region(rounded_bytes)
        if self.reserved_bytes + size > LARGEST_ADDRESS_SPACE_BYTES:
            given = f"{format_bytes(self.reserved_bytes)} reserved, {format_bytes(rounded_bytes)} requested"
            raise LowtideError(
                "the step needs more memory than can be addressed", given=given, cure="use a smaller batch"
            )
        address = self._place_region(size, tuple(self.regions))
        self.regions.append(Region(address, size))
        self.reserved_bytes += size
        key = size << _ADDRESS_BITS | address
        self._free_by_start[address] = self._free_by_end[address + size] = key
        insort(self._free, key)

    def _size_of_next_region(self, rounded_bytes: int) -> int:
        available: int | None = None
        if self.limit_bytes is not None:
            available = (self.limit_bytes - self.reserved_bytes) & -GRANULE_BYTES
            if rounded_bytes > available:
                raise OutOfMemory(
                    rounded_bytes,
                    self.largest_free_bytes(),
                    self.bytes_in_use,
                    self.reserved_bytes,
                    self.limit_bytes,
                )
        size = self._next_region_bytes
        if rounded_bytes > size:
            while rounded_bytes > size:
                size *= 2
            # The size was raised for this request already, so the next region is not doubled.
            self._next_region_bytes = size
        else:
            self._next_region_bytes = size * 2
        return size if available is None else min(size, available)


def round_up(requested_bytes: int) -> int:
    """The smallest chunk that holds a request."""
    return -(-requested_bytes // GRANULE_BYTES) * GRANULE_BYTES
