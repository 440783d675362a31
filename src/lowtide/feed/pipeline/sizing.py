"""How deep a pipeline may be: readers, read-ahead and blocks that a budget in bytes has room for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowtide.errors import LowtideError
from lowtide.units import format_bytes

# More batches ahead than this do not make a step wait less.
_MOST_AHEAD = 8
# A batch is in use while the next one is handed over.
_IN_USE = 2
# Of what is left beside the least, blocks get this share: the more samples lie in a window, the better they are mixed.
_WINDOW_SHARE = 0.6
# What Python does for a batch takes as long as reading this many bytes: smaller batches are read in runs of this size.
_RUN_BYTES = 4 << 20


@dataclass(frozen=True)
class Sizing:
    """What a pipeline holds at most."""

    budget_bytes: int
    batch_bytes: int
    readers: int
    """How many batches are read at a time."""
    ahead: int
    """How many batches are ready before they are asked for."""
    window_bytes: int = 0
    """What blocks that were read take, for samples that cannot be read one by one."""
    fixed_bytes: int = 0
    """What is there anyway, such as an index."""
    run: int = 1
    """How many batches are read as one, and then cut."""

    @property
    def peak_bytes(self) -> int:
        """The most that it will hold."""
        # A run that is cut goes when its last batch does: all of it may be there for the one that is in use.
        read = self.readers if self.run == 1 else (self.readers + _IN_USE) * self.run
        return self.fixed_bytes + self.window_bytes + (read + self.ahead + _IN_USE) * self.batch_bytes


def choose_sizes(
    budget_bytes: int,
    batch_bytes: int,
    processors: int,
    block_bytes: int = 0,
    fixed_bytes: int = 0,
    scratch: int = 0,
    spare: float = 0.0,
) -> Sizing:
    """Make the best of a budget; `block_bytes` is what the blocks of one batch take, where samples come in blocks.

    `scratch` is what a reader needs on top of its batch. The share `spare` of the budget is used for the least alone.
    """
    least = Sizing(budget_bytes, batch_bytes, 1, 0, block_bytes, fixed_bytes + scratch)
    if least.peak_bytes > budget_bytes:
        raise LowtideError(
            "the budget has no room for a batch and one that is read ahead",
            given=f"{format_bytes(budget_bytes)}; a batch takes {format_bytes(batch_bytes)}",
            cure=f"give at least {format_bytes(least.peak_bytes)}, or a smaller batch",
        )
    left = max(int((1 - spare) * budget_bytes) - least.peak_bytes, 0)
    window = block_bytes + int(_WINDOW_SHARE * left) if block_bytes else 0
    left -= window - block_bytes
    readers, ahead = 1, 0
    # Ahead and readers in turn: a reader without a place to put its batch waits.
    while ahead < _MOST_AHEAD and left >= batch_bytes:
        ahead, left = ahead + 1, left - batch_bytes
        if readers < processors and left >= batch_bytes + scratch:
            readers, left = readers + 1, left - batch_bytes - scratch
    return Sizing(budget_bytes, batch_bytes, readers, ahead, window, fixed_bytes + readers * scratch)


def in_runs(sizing: Sizing) -> Sizing:
    """Read small batches several at a time, as far as the budget has room for it."""
    run = _RUN_BYTES // max(sizing.batch_bytes, 1)
    while run > 1:
        wanted = replace(sizing, run=run)
        if wanted.peak_bytes <= sizing.budget_bytes:
            return wanted
        run //= 2
    return sizing
