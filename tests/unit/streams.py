"""A run by hand: what a program asks of the real model of the allocator, as the profiler would have written it down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.run.record import Call, Window
from lowtide.simulator.bfc import BfcAllocator, Region
from lowtide.sources.profiles.xplane import AllocationRecord, KernelRecord, Mark, Profile
from lowtide.tide.owner import Owner

Event = tuple[int, bool, int, int, int, int, str, str | None, str | None, str | None, tuple[int, ...] | None]


def place_above(size_bytes: int, regions: Sequence[Region]) -> int:
    """Place a region above all others, as a heap grows; the model itself places them below."""
    return max((sum(region) for region in regions), default=1 << 46) + 4096


class Stream:
    """Allocations and frees by name, marks and calls; each takes one nanosecond."""

    def __init__(self, allocator: str = "cpu") -> None:
        self.memory = BfcAllocator()
        self.allocator = allocator
        self.address: dict[str, int] = {}
        self.requested: dict[str, int] = {}
        self.time = 0
        self.events: list[Event] = []
        self.marks: list[Mark] = []
        self.kernels: list[tuple[str, int, int]] = []
        self.calls: list[Call] = []
        self.places: dict[int, tuple[Owner, ...]] = {}
        self.number = 0

    def allocate(self, name: str, size: int, operation: str | None = None, region: str = "output") -> int:
        address = self.memory.allocate(size)
        assert address is not None
        self.address[name], self.requested[name] = address, size
        self._note(True, address, size, self.memory.chunk_bytes(address), operation or name, region)
        return address

    def free(self, name: str) -> None:
        address, size = self.address.pop(name), self.requested.pop(name)
        allocated = self.memory.chunk_bytes(address)
        self.memory.free(address)
        self._note(False, address, size, allocated, None, None)

    def compute(self, node: str, duration_us: int, *, beside: bool = False) -> None:
        """Run a kernel; `beside` the next one, in another thread."""
        self.kernels.append((node, self.time, duration_us * 1_000_000))
        self.time += 0 if beside else duration_us * 1_000_000

    def begin(self, step: int, function: str = "step", places: Sequence[Owner] = ()) -> Call:
        """Begin a call; its end is a matter of `end`."""
        self.number += 1
        call = Call(self.number, step, function)
        self.calls.append(call)
        self.places[call.begin_mark] = tuple(places)
        self.mark(call.begin_mark)
        return call

    def end(self, call: Call) -> None:
        self.mark(call.end_mark)

    def mark(self, number: int) -> None:
        self.time += 1000
        self.marks.append(Mark(self.time, number))

    def place(self, name: str, kind: str = "weights", layer: str | None = None, path: str | None = None) -> Owner:
        size = self.requested[name]
        return Owner(
            name=path or name,
            layer=layer,
            kind=kind,
            dtype="float32",
            shape=(size // 4,),
            bytes=size,
            address=self.address[name],
        )

    def cut(self) -> tuple[Window, Profile]:
        """The window and the profile since the last cut."""
        window = Window("window.xplane.pb", tuple(self.calls), self.places)
        profile = Profile(_record(self.events), tuple(self.marks), KernelRecord.of(self.kernels))
        self.events, self.marks, self.kernels, self.calls, self.places = [], [], [], [], {}
        return window, profile

    def _note(
        self, is_allocation: bool, address: int, size: int, allocated: int, operation: str | None, region: str | None
    ) -> None:
        self.time += 1000
        shape = (size // 4,) if is_allocation else None
        dtype = "float32" if is_allocation else None
        self.events.append(
            (self.time, is_allocation, address, size, allocated, self.memory.bytes_in_use, self.allocator, operation,
             region, dtype, shape)
        )  # fmt: skip


def _record(events: list[Event]) -> AllocationRecord:
    columns = [list(column) for column in zip(*events, strict=True)] if events else [[]] * 11
    time, is_allocation, address, requested, allocated, in_use, allocator, operation, region, dtype, shape = columns
    count = len(events)
    return AllocationRecord(
        time_ps=np.array(time, np.int64),
        is_allocation=np.array(is_allocation, np.bool_),
        thread=np.ones(count, np.int64),
        address=np.array(address, np.int64),
        requested_bytes=np.array(requested, np.int64),
        allocated_bytes=np.array(allocated, np.int64),
        bytes_in_use=np.array(in_use, np.int64),
        fragmentation=np.full(count, 0.25),
        allocator=allocator,
        operation=operation,
        region_type=region,
        dtype=dtype,
        shape=shape,
    )
