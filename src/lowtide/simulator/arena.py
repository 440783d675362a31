"""The basin: one region of the allocator for all that a planned step takes.

An allocator that fetches regions as they are needed has many of them, each twice the size of the one before. A tensor
lies in one region, and what is left beside it is too small for the next: the same tensors take a tenth more in several
regions than in one. So before its first step a planned step asks for a large block and gives it back at once. What
the allocator fetches for it is one region, up to the limit, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.simulator.bfc import FIRST_REGION_BYTES

_MEBIBYTE = 1 << 20
# Variables are drawn, and batches made, with something beside them; the allocator's mark of it may have been set back.
_BEFORE = 1.5
# A request that the limit does not allow makes the allocator wait for ten seconds.
_MOST_REQUESTS = 2


def basin_requests(total_bytes: int, held_bytes: int, highest_bytes: int) -> Iterator[int]:
    """Which blocks to ask for until one is given, if a step takes so much in all.

    So much is in use now, and so much was at most.

    An allocator doubles its next region until the request fits, and takes what its limit leaves if that is less. So
    the smallest request that gets the region is asked for: one that is just too large for half of it.
    """
    highest_bytes = max(highest_bytes, int(held_bytes * _BEFORE))
    fetched, region = 0, FIRST_REGION_BYTES
    while fetched < highest_bytes:
        fetched, region = fetched + region, region * 2
    for _ in range(_MOST_REQUESTS):
        half = region
        while half * 2 < total_bytes - fetched:
            half *= 2
        # Otherwise the next region holds all of the rest as it is.
        if half < total_bytes - fetched:
            yield half + _MEBIBYTE
        # It was refused: there is a region more than was thought.
        fetched, region = fetched + region, region * 2
