"""A simulated process: its allocator, what it holds before the first step, and its steps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowtide.simulator import tuning
from lowtide.simulator.allocation_stream import AllocationStream
from lowtide.simulator.arena import arena_requests
from lowtide.simulator.bfc import BfcAllocator, OutOfMemory, Replay


@dataclass(frozen=True, slots=True)
class Residents:
    """What a process holds besides the step's own buffers, and how the step's variables were created."""

    extra: tuple[int, ...] = ()
    """Bytes of variables that the step does not use."""
    drawn: frozenset[int] = frozenset()
    """Handles of variables with a random initial value. It takes three tensors, of which the last stays: random numbers
    that are drawn, scaled and shifted."""
    held_bytes: int = 0
    """What the allocator of a real process holds before the step; 0 if that is unknown."""


class SimulatedProcess:
    """A process that runs step after step: an allocator, and the addresses of the lasting buffers in it."""

    def __init__(
        self,
        stream: AllocationStream,
        residents: Residents,
        limit_bytes: int | None = None,
        small_allocations: random.Random | None = None,
        arena_bytes: int | None = None,
    ) -> None:
        """Create the buffers that exist before the first step.

        `small_allocations` draws a number of small tensors that lie between the buffers and appear in no graph. With
        `arena_bytes`, the process fetches an arena for a planned step of that size.
        """
        self.allocator = BfcAllocator(limit_bytes)
        self.addresses: list[int | None] = [None] * len(stream.sizes)
        self.small_allocations = small_allocations
        draw = small_allocations
        self.small_per_buffer = tuning.MOST_SMALL_ALLOCATIONS * draw.random() if draw is not None else 0.0
        # Seeds and handles are allocated before the first weight, so the first region is a small one.
        self.allocator.free(self.allocator.allocate(1))
        # A planned step fetches its arena before its function is called, and a function creates its constants in its
        # first call.
        early = len(stream.before) if arena_bytes is None else stream.first_constant
        if draw is not None and draw.random() < 0.7:
            # Other tensors may have been made before the model, as few or as many.
            known_bytes = sum(stream.sizes[buffer] for buffer in stream.before[:early]) + sum(residents.extra)
            self._hold(residents.held_bytes - known_bytes, in_blocks=draw.random() < 0.5)
        self._create(stream, stream.before[:early], residents)
        for size in residents.extra:
            self.allocator.allocate(size)
        self.other_bytes = self._hold(residents.held_bytes - self.allocator.bytes_in_use)
        if draw is not None:
            # Earlier work of the process, creating a batch for example, may have fetched one more region.
            largest = max((stream.sizes[buffer] for buffer in stream.before), default=0)
            count = draw.randrange(tuning.MOST_EARLY_TENSORS + 1)
            for address in [self.allocator.allocate(largest) for _ in range(count)]:
                self.allocator.free(address)
        if arena_bytes is not None:
            self._fetch_arena(arena_bytes)
            self._create(stream, stream.before[early:], residents)

    def _create(self, stream: AllocationStream, buffers: Sequence[int], residents: Residents) -> None:
        """Allocate lasting buffers."""
        allocate, free, draw = self.allocator.allocate, self.allocator.free, self.small_allocations
        for buffer in buffers:
            if draw is not None:
                for _ in range(int(self.small_per_buffer + draw.random())):
                    allocate(1)
            size = stream.sizes[buffer]
            if stream.owner_ids[buffer] in residents.drawn and buffer not in stream.handles:
                drawn, scaled = allocate(size), allocate(size)
                self.addresses[buffer] = allocate(size)
                free(scaled)
                free(drawn)
            else:
                self.addresses[buffer] = allocate(size)

    def _hold(self, wanted_bytes: int, *, in_blocks: bool = False) -> int:
        """Allocate lasting memory until it has taken the wanted bytes; return what it has taken.

        It is allocated in equal pieces, or in blocks, each the largest power of two that is still wanted.
        """
        before, piece = self.allocator.bytes_in_use, max(wanted_bytes // tuning.HELD_PIECES, tuning.HELD_PIECE_BYTES)
        while (missing := wanted_bytes - (self.allocator.bytes_in_use - before)) > 0:
            largest = max(1 << missing.bit_length() - 1, tuning.HELD_PIECE_BYTES) if in_blocks else piece
            self.allocator.allocate(min(missing, largest))
        return self.allocator.bytes_in_use - before

    def _fetch_arena(self, total_bytes: int) -> None:
        allocator = self.allocator
        for wanted in arena_requests(total_bytes, allocator.bytes_in_use, allocator.peak_bytes_in_use):
            with suppress(OutOfMemory):
                allocator.free(allocator.allocate(wanted))
                break

    def chunk_sizes(self, stream: AllocationStream) -> npt.NDArray[np.int64]:
        """Return the chunk sizes of the buffers that exist before a step."""
        sizes = [
            0 if (address := self.addresses[buffer]) is None else self.allocator.chunk_bytes(address)
            for buffer in stream.before
        ]
        return np.array(sizes, np.int64)

    def step(self, stream: AllocationStream) -> Replay:
        """Run one step and return its curve."""
        self.allocator.reset_peak()
        replay = self.allocator.replay(stream.sizes, stream.events, self._held(stream))
        self._move_variables(stream, replay.addresses)
        return replay

    def step_without_curve(self, stream: AllocationStream) -> None:
        """Run one step; raises OutOfMemory if it exceeds the limit."""
        allocate, free, sizes, held = self.allocator.allocate, self.allocator.free, stream.sizes, self._held(stream)
        for event in stream.events:
            if event >= 0:
                held[event] = allocate(sizes[event])
            else:
                free(held[~event])
                held[~event] = None
        self._move_variables(stream, held)

    def _held(self, stream: AllocationStream) -> list[int | None]:
        held: list[int | None] = [None] * len(stream.sizes)
        for buffer in stream.before:
            held[buffer] = self.addresses[buffer]
        return held

    def _move_variables(self, stream: AllocationStream, addresses: list[int | None]) -> None:
        """Record the new addresses of the variables that were assigned another buffer."""
        self.addresses = addresses
        lasting = set(stream.before)
        for old, new in stream.renewed.items():
            if new in lasting:
                # It shares the buffer of a constant or another variable; the next step's first update would copy it.
                self.addresses[old] = self.allocator.allocate(stream.sizes[old])
            else:
                self.addresses[old] = addresses[new]
                lasting.add(new)
