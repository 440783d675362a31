"""The arena: one region of the allocator for everything that a planned step allocates.

An allocator that fetches regions on demand has many of them, each twice the size of the one before. A tensor is in one
region, and the space left beside it is too small for the next tensor: the same tensors take up to a tenth more in
several regions than in one. So before its first call, a planned step requests a large block and frees it at once. The
allocator fetches one region for it, up to the limit, and keeps that region.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.simulator.bfc import FIRST_REGION_BYTES
from lowtide.simulator.tuning import EARLIER_PEAK_FACTOR, MOST_ARENA_REQUESTS

_MEBIBYTE = 1 << 20


def arena_requests(total_bytes: int, bytes_in_use: int, peak_bytes_in_use: int) -> Iterator[int]:
    """Yield the sizes to request, one after the other until one succeeds, for a step that takes `total_bytes` in all.

    `bytes_in_use` and `peak_bytes_in_use` are the allocator's counts before the step. An allocator doubles its next
    region until the request fits, and takes what its limit leaves if that is less. So each request is the smallest that
    gets the region: one that is just too large for half of it.
    """
    peak_bytes_in_use = max(peak_bytes_in_use, int(bytes_in_use * EARLIER_PEAK_FACTOR))
    fetched, region = 0, FIRST_REGION_BYTES
    while fetched < peak_bytes_in_use:
        fetched, region = fetched + region, region * 2
    for _ in range(MOST_ARENA_REQUESTS):
        half = region
        while half * 2 < total_bytes - fetched:
            half *= 2
        # Otherwise the next region is large enough for the rest without a request.
        if half < total_bytes - fetched:
            yield half + _MEBIBYTE
        # The request failed, so the allocator has fetched one more region than estimated.
        fetched, region = fetched + region, region * 2
