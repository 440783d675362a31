"""The limits of a compiled step, found by replaying its allocations in the BFC allocator.

The allocator splits a chunk only if enough remains, and its regions double in size, so the memory that a block takes
grows in steps. The functions here search for a size by trying.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from lowtide.simulator.bfc import FIRST_REGION_BYTES, LARGEST_WASTE_BYTES, BfcAllocator, OutOfMemory, Replay, round_up
from lowtide.tf.trace.xla.memory import TEMPORARY, XlaArgument, XlaMemory

# The first run of a step may fetch regions that later runs find free; after that, all runs are the same.
_RUNS_UNTIL_STEADY = 3
# The number of random allocation orders that are tried.
_RANDOM_ORDERS = 8


def creation_order(resident: XlaArgument) -> tuple[bool, int]:
    """Return the key that sorts residents as a program allocates them: variables as created, then inputs."""
    return resident.owner.kind == "input", resident.created or 0


def allocate_residents(
    allocator: BfcAllocator, residents: Sequence[XlaArgument], with_spares: bool = False
) -> list[int]:
    """Allocate the tensors that exist before the step, as a program that builds a model does; return chunk sizes.

    The space that this leaves in a region depends on the order. Small tensors come first in every process. A weight
    with a random initial value is the third of three tensors of its size: the random numbers, their product with the
    range, and the sum with the lower end. With `with_spares`, every input is allocated like this, and so are two more
    tensors of the size of the largest: the allocator never returns regions that it fetched for a short time.
    """
    first = allocator.allocate(1)
    chunks = []
    spares: list[int | None] = []
    for resident in residents:
        is_random = resident.owner.kind == "weights" and len(resident.owner.shape or ()) > 1
        transient: list[int | None] = []
        if is_random or (with_spares and resident.owner.kind == "input"):
            transient = [allocator.allocate(resident.owner.bytes), allocator.allocate(resident.owner.bytes)]
        address = allocator.allocate(resident.owner.bytes)
        chunks.append(0 if address is None else allocator.chunk_bytes(address))
        for used in reversed(transient):
            allocator.free(used)
    if with_spares:
        largest = max((resident.owner.bytes for resident in residents), default=0)
        inputs = [resident.owner.bytes for resident in residents if resident.owner.kind == "input"]
        spares = [allocator.allocate(size) for size in (largest, largest, *inputs, *inputs)]
    for spare in (first, *spares):
        allocator.free(spare)
    return chunks


def replay_until_steady(allocator: BfcAllocator, memory: XlaMemory) -> Replay:
    """Run the step's allocations until runs no longer differ; return the last run."""
    sizes, events = memory.stream()
    replays = [allocator.replay(sizes, events) for _ in range(_RUNS_UNTIL_STEADY)]
    return replays[-1]


def smallest_limit(memory: XlaMemory, residents: Sequence[XlaArgument]) -> int:
    """Return the smallest hard limit of the allocator within which the residents and the step fit."""
    low = sum(round_up(resident.owner.bytes) for resident in residents) + sum(memory.stream()[0])
    high = max(low, 1 << 20)
    while not _fits(memory, residents, high):
        high *= 2
    while high - low > max(high >> 10, 1 << 16):
        middle = (low + high) // 2
        if _fits(memory, residents, middle):
            high = middle
        else:
            low = middle
    return high


def uncertain_bytes(residents: Sequence[XlaArgument]) -> int:
    """Return how much more the residents may take in another allocation order.

    Whether a chunk is split depends on what was allocated before, and what a program allocates beside its model is not
    known; so random orders are tried.
    """
    sizes = []
    for seed in (None, *range(_RANDOM_ORDERS)):
        order = list(residents)
        if seed is not None:
            random.Random(seed).shuffle(order)
        allocator = BfcAllocator()
        allocate_residents(allocator, order)
        sizes.append(allocator.bytes_in_use)
    return max(sizes) - sizes[0]


def largest_temporary_bytes(memory: XlaMemory, residents: Sequence[XlaArgument], budget_bytes: int) -> int:
    """Return how large the temporary blocks may be within a budget; the other blocks stay as they are."""
    residents = sorted(residents, key=creation_order)
    budget_bytes -= uncertain_bytes(residents)
    low, high = 0, max(budget_bytes, 0)
    while high - low > max(budget_bytes >> 8, 1 << 14):
        middle = (low + high) // 2
        resized = _with_temporary_bytes(memory, middle)
        if _fits(resized, residents, budget_bytes) and _peak_bytes(resized, residents) <= budget_bytes:
            low = middle
        else:
            high = middle
    return low


def unsplit_bytes(memory: XlaMemory, replay: Replay) -> int:
    """Return how much more the temporary blocks take if each gets a new region, and no chunk is split off it."""
    extra = 0
    for allocation, chunk in zip(memory.allocations, replay.allocated_bytes.tolist(), strict=True):
        if allocation.role == TEMPORARY:
            region = FIRST_REGION_BYTES
            while region < allocation.owner.bytes:
                region *= 2
            if region - allocation.owner.bytes < min(allocation.owner.bytes, LARGEST_WASTE_BYTES):
                extra += max(region - chunk, 0)
    return extra


def _with_temporary_bytes(memory: XlaMemory, size: int) -> XlaMemory:
    """Return the same allocations with temporary blocks that add up to `size`."""
    share = size / max(memory.temp_bytes, 1)
    allocations = tuple(
        replace(each, owner=replace(each.owner, bytes=int(each.owner.bytes * share)))
        if each.role == TEMPORARY
        else each
        for each in memory.allocations
    )
    return replace(memory, allocations=allocations)


def _peak_bytes(memory: XlaMemory, residents: Sequence[XlaArgument]) -> int:
    """Return the peak, with the temporary blocks wherever they take most."""
    allocator = BfcAllocator()
    allocate_residents(allocator, residents)
    replay = replay_until_steady(allocator, memory)
    return int(replay.bytes_in_use.max(initial=allocator.bytes_in_use)) + unsplit_bytes(memory, replay)


def _fits(memory: XlaMemory, residents: Sequence[XlaArgument], limit: int) -> bool:
    for with_spares in (False, True):
        allocator = BfcAllocator(limit)
        try:
            allocate_residents(allocator, residents, with_spares)
            replay_until_steady(allocator, memory)
        except OutOfMemory:
            return False
    return True
