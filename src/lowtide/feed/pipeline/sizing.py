"""The depth of a pipeline: how many readers, prefetched batches and blocks fit into a budget in bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowtide.errors import LowtideError
from lowtide.run.train.settings import data_share
from lowtide.units import format_bytes, format_bytes_up

# More prefetched batches than this do not shorten the wait of a step.
_MOST_PREFETCHED = 8
# A batch is in use while the next one is handed over.
_IN_USE = 2
# The share of the remaining budget that goes to blocks: the more samples are in a window, the better they are mixed.
_WINDOW_SHARE = 0.6
# What the threads, functions and Python objects of a pipeline take beyond its batches and blocks: 3 to 5 MiB, measured
# on HDF5 and images. Of a small budget only a share is left free for it: then the rest comes on top.
_STARTED_BYTES, _STARTED_SHARE = 6 << 20, 1 / 4
# The C library keeps what a thread has freed for that thread, except for blocks of this size and more, which it returns
# to the system.
_RETURNED_BYTES = 32 << 20
# What it keeps, relative to the most that the thread had at a time. Aligned blocks, as TensorFlow requests them, leave
# holes into which no block of the same size fits: a thread that decoded images in 5 MiB had 15 MiB (glibc 2.36). Where
# oneDNN is on, tensors come from one allocator for all threads, which may give a tensor a chunk of twice its size.
_KEPT_TIMES, _LARGE_KEPT_TIMES = 3, 2
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
    def usable_bytes(self) -> int:
        """The budget without what the threads and functions of the pipeline take."""
        return self.budget_bytes - min(_STARTED_BYTES, int(_STARTED_SHARE * self.budget_bytes))

    @property
    def peak_bytes(self) -> int:
        """The most memory that the batches, the blocks and their readers take."""
        # The memory of a read is released with its last batch: the batches in use may keep a whole read each.
        in_reads = self.readers if self.batches_per_read == 1 else (self.readers + _IN_USE) * self.batches_per_read
        return self.fixed_bytes + self.window_bytes + (in_reads + self.prefetched + _IN_USE) * self.batch_bytes


def kept_for_thread(needed_bytes: int) -> int:
    """The memory that a thread of TensorFlow's ops takes if one call needs `needed_bytes`."""
    return needed_bytes * (_KEPT_TIMES if needed_bytes < _RETURNED_BYTES else _LARGE_KEPT_TIMES)


def choose_sizes(
    budget_bytes: int,
    batch_bytes: int,
    processors: int,
    block_bytes: int = 0,
    fixed_bytes: int = 0,
    reader_bytes: int = 0,
    block_reason: str | None = None,
) -> Sizing:
    """Choose the largest sizes that fit into a budget.

    `block_bytes` is the memory of the blocks of one batch, if samples are read in blocks; `reader_bytes` is the memory
    of a thread that reads, besides its batch, and there is one thread more than readers. What the pipeline takes to
    start is left free if the smallest sizes leave room for it.
    `block_reason` says in an error why the blocks take `block_bytes`, and what would make them smaller.
    """
    least = Sizing(budget_bytes, batch_bytes, 1, 0, block_bytes, fixed_bytes + 2 * reader_bytes)
    if least.peak_bytes > budget_bytes:
        raise LowtideError(
            "the budget is too small for one batch in use and one being read",
            given=f"{format_bytes(budget_bytes)}; a batch takes {format_bytes(batch_bytes)}"
            + (f", and what it is read from {format_bytes(block_bytes)}: {block_reason}" if block_reason else ""),
            cure=f"give at least {format_bytes_up(least.peak_bytes)}, "
            + ("store smaller chunks or row groups, or use a smaller batch" if block_reason else "or a smaller batch"),
        )
    left = max(least.usable_bytes - least.peak_bytes, 0)
    window = block_bytes + int(_WINDOW_SHARE * left) if block_bytes else 0
    # `lowtide train` lowers the share after the host's memory ran out. The window stays: the order depends on it.
    left = int((left - window + block_bytes) * data_share())
    readers, prefetched = 1, 0
    # Prefetched batches and readers in turn: a reader needs a free place for its batch.
    while prefetched < _MOST_PREFETCHED and left >= batch_bytes:
        prefetched, left = prefetched + 1, left - batch_bytes
        if readers < processors and left >= batch_bytes + reader_bytes:
            readers, left = readers + 1, left - batch_bytes - reader_bytes
    return Sizing(budget_bytes, batch_bytes, readers, prefetched, window, fixed_bytes + (readers + 1) * reader_bytes)


def read_together(sizing: Sizing) -> Sizing:
    """Read as many small batches at once as the budget allows."""
    batches = _READ_BYTES // max(sizing.batch_bytes, 1)
    while batches > 1:
        wanted = replace(sizing, batches_per_read=batches)
        if wanted.peak_bytes <= sizing.usable_bytes:
            return wanted
        batches //= 2
    return sizing
