"""The depth of a pipeline: how many readers, prefetched batches and blocks fit into a budget in bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowtide.errors import LowtideError
from lowtide.units import format_bytes

# More prefetched batches than this do not shorten the wait of a step.
_MOST_PREFETCHED = 8
# A batch is in use while the next one is handed over.
_IN_USE = 2
# The share of the remaining budget that goes to blocks: the more samples are in a window, the better they are mixed.
_WINDOW_SHARE = 0.6
# Python's overhead per batch equals the time to read this many bytes: smaller batches are read together.
_READ_BYTES = 4 << 20


@dataclass(frozen=True)
class Sizing:
    """The numbers of readers and buffers of a pipeline."""

    budget_bytes: int
    batch_bytes: int
    readers: int
    """The number of batches that are read at a time."""
    prefetched: int
    """The number of batches that are ready before they are requested."""
    window_bytes: int = 0
    """The memory for blocks, where samples cannot be read one by one."""
    fixed_bytes: int = 0
    """Memory that does not depend on the other sizes, such as an index."""
    batches_per_read: int = 1
    """The number of batches that are read together and then split."""

    @property
    def peak_bytes(self) -> int:
        """The most memory that the pipeline takes."""
        # The memory of a read is released with its last batch: the batches in use may keep a whole read each.
        in_reads = self.readers if self.batches_per_read == 1 else (self.readers + _IN_USE) * self.batches_per_read
        return self.fixed_bytes + self.window_bytes + (in_reads + self.prefetched + _IN_USE) * self.batch_bytes


def choose_sizes(
    budget_bytes: int,
    batch_bytes: int,
    processors: int,
    block_bytes: int = 0,
    fixed_bytes: int = 0,
    reader_bytes: int = 0,
    reserved_share: float = 0.0,
) -> Sizing:
    """Choose the largest sizes that fit into a budget.

    `block_bytes` is the memory of the blocks of one batch, if samples are read in blocks; `reader_bytes` is the memory
    of a reader besides its batch. The last `reserved_share` of the budget is used for the smallest sizes only.
    """
    least = Sizing(budget_bytes, batch_bytes, 1, 0, block_bytes, fixed_bytes + reader_bytes)
    if least.peak_bytes > budget_bytes:
        raise LowtideError(
            "the budget is too small for one batch in use and one being read",
            given=f"{format_bytes(budget_bytes)}; a batch takes {format_bytes(batch_bytes)}",
            cure=f"give at least {format_bytes(least.peak_bytes)}, or a smaller batch",
        )
    left = max(int((1 - reserved_share) * budget_bytes) - least.peak_bytes, 0)
    window = block_bytes + int(_WINDOW_SHARE * left) if block_bytes else 0
    left -= window - block_bytes
    readers, prefetched = 1, 0
    # Prefetched batches and readers in turn: a reader needs a free place for its batch.
    while prefetched < _MOST_PREFETCHED and left >= batch_bytes:
        prefetched, left = prefetched + 1, left - batch_bytes
        if readers < processors and left >= batch_bytes + reader_bytes:
            readers, left = readers + 1, left - batch_bytes - reader_bytes
    return Sizing(budget_bytes, batch_bytes, readers, prefetched, window, fixed_bytes + readers * reader_bytes)


def read_together(sizing: Sizing) -> Sizing:
    """Read as many small batches at once as the budget allows."""
    batches = _READ_BYTES // max(sizing.batch_bytes, 1)
    while batches > 1:
        wanted = replace(sizing, batches_per_read=batches)
        if wanted.peak_bytes <= sizing.budget_bytes:
            return wanted
        batches //= 2
    return sizing
