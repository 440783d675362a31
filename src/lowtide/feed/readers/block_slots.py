"""Blocks of rows in adjacent memory, so that the rows of a batch can be gathered from many blocks at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lowtide.feed.readers.buffer_pool import BufferPool
from lowtide.feed.readers.samples import Indices, Rows

# The number of rows that stay in the processor's cache while they are split into columns.
_ROWS_TOGETHER = 4096

LoadBlock = Callable[[int], Iterable[Rows]]
"""Reads the columns of a block, one after the other."""


class BlockSlots:
    """A fixed number of slots with room for one block each; the least recently used block is replaced first."""

    def __init__(self, dtypes: Sequence[np.dtype[Any]], blocks: int, slots: int, rows: int, load: LoadBlock) -> None:
        self._load = load
        self._rows = rows
        self._slots = max(min(slots, blocks), 1)
        self._dtypes = dtypes
        # The numbers of a row are adjacent: a row is fetched from memory once, not once per column. Pages that were
        # never written to take no memory.
        numbers = [(str(column), dtype) for column, dtype in enumerate(dtypes) if not dtype.hasobject]
        self._numbers = np.empty(self._slots * rows, numbers)
        # NumPy copies structured rows field by field, and opaque ones (V) in one piece.
        self._packed = self._numbers.view(f"V{self._numbers.dtype.itemsize}")
        self._objects = {
            column: np.empty(self._slots * rows, dtype) for column, dtype in enumerate(dtypes) if dtype.hasobject
        }
        self._first_row = np.full(blocks, -1, np.int64)
        self._slot_of: OrderedDict[int, int] = OrderedDict()
        self._buffers = BufferPool()
        # One batch at a time: no block may be replaced while a batch is gathered from it.
        self._lock = threading.Lock()

    def take(self, blocks: Indices, rows: Indices) -> list[Rows]:
        """Return the columns of rows, each row given by its block and its number in the block."""
        with self._lock:
            needed = np.flatnonzero(np.bincount(blocks)).tolist()
            if len(needed) <= self._slots:
                self._fetch(needed)
                return self._gather(self._first_row[blocks] + rows)
            return self._take_in_turn(needed, blocks, rows)

    def _gather(self, rows: Indices) -> list[Rows]:
        columns = self._empty_columns(len(rows))
        for low in range(0, len(rows), _ROWS_TOGETHER):
            some = rows[low : low + _ROWS_TOGETHER]
            numbers = self._packed.take(some, mode="clip").view(self._numbers.dtype)
            for number, column in enumerate(columns):
                objects = self._objects.get(number)
                values = numbers[str(number)] if objects is None else objects.take(some, mode="clip")
                column[low : low + _ROWS_TOGETHER] = values
        return columns

    def _empty_columns(self, count: int) -> list[Rows]:
        return [self._buffers.take((count,), dtype) for dtype in self._dtypes]

    def _take_in_turn(self, needed: list[int], blocks: Indices, rows: Indices) -> list[Rows]:
        """Gather from more blocks than there are slots, starting with the blocks that are loaded."""
        needed.sort(key=lambda block: block not in self._slot_of)
        columns = self._empty_columns(len(rows))
        for low in range(0, len(needed), self._slots):
            some = needed[low : low + self._slots]
            self._fetch(some)
            chosen = np.flatnonzero(np.isin(blocks, some))
            gathered = self._gather(self._first_row[blocks[chosen]] + rows[chosen])
            for column, values in zip(columns, gathered, strict=True):
                column[chosen] = values
        return columns

    def _fetch(self, needed: list[int]) -> None:
        """Load blocks into slots; `needed` has at most as many blocks as there are slots."""
        for block in needed:
            if block in self._slot_of:
                self._slot_of.move_to_end(block)
        for block in needed:
            if block not in self._slot_of:
                slot = self._free_slot()
                for number, values in enumerate(self._load(block)):
                    column = self._objects[number] if number in self._objects else self._numbers[str(number)]
                    column[slot * self._rows : slot * self._rows + len(values)] = values
                self._slot_of[block] = slot
                self._first_row[block] = slot * self._rows

    def _free_slot(self) -> int:
        if len(self._slot_of) < self._slots:
            return next(slot for slot in range(self._slots) if slot not in set(self._slot_of.values()))
        block, slot = self._slot_of.popitem(last=False)
        self._first_row[block] = -1
        return slot
