"""The basin: one region of the allocator for all that a planned step takes.

An allocator that fetches regions as they are needed has many of them, each twice the size of the one before. A tensor
lies in one region, and what is left beside it is too small for the next: the same tensors take a tenth more in several
regions than in one. So before its first step a planned step asks for a large block and gives it back at once. What
the allocator fetches for it is one region, up to the limit, and stays.
"""

from __future__ import annotations

from lowtide.tide.bfc import FIRST_REGION_BYTES

_MEBIBYTE = 1 << 20
# Regions double, so behind the first two those that are there hold about twice what was ever in use; three times is
# sure to be enough. It costs nothing: the allocator doubles the region, or takes all that its limit leaves.
_FETCHED_BEFORE, _SMALLEST_BYTES = 3, 2 * FIRST_REGION_BYTES


def basin_bytes(total_bytes: int, highest_bytes: int) -> int:
    """How large a block to ask for, if the step may take so much in all and so much was in use at most so far.

    It is never more than the limit leaves, for an allocator that cannot serve a request waits for ten seconds.
    """
    left = total_bytes - _FETCHED_BEFORE * highest_bytes - _SMALLEST_BYTES
    return max(left, 0) // _MEBIBYTE * _MEBIBYTE
