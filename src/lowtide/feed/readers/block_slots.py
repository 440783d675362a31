"""Blocks of rows side by side in memory, so that the rows of a batch are taken from all of them at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lowtide.feed.pipeline.order import Places
from lowtide.feed.readers.array_files import Rows
from lowtide.feed.readers.buffer_pool import Buffers

# So many rows are in a processor's own memory while they are taken apart into columns.
_TOGETHER = 4096

Load = Callable[[int], Iterable[Rows]]
"""Reads the columns of a block, one after the other."""


class Slots:
    """Rows cut into slots that have room for a block each; the block that was not used for longest goes first."""

    def __init__(self, dtypes: Sequence[np.dtype[Any]], blocks: int, slots: int, rows: int, load: Load) -> None:
        self._load = load
        self._rows = rows
        self._slots = max(min(slots, blocks), 1)
        self._dtypes = dtypes
        # The numbers of a row lie side by side: it is fetched from memory once, not for each of its columns. Pages that
        # nobody has written to take no memory.
        numbers = [(str(place), dtype) for place, dtype in enumerate(dtypes) if not dtype.hasobject]
        self._numbers = np.empty(self._slots * rows, numbers)
        # NumPy copies rows of fields one by one, and what it knows nothing of all at once.
        self._packed = self._numbers.view(f"V{self._numbers.dtype.itemsize}")
        self._objects = {
            place: np.empty(self._slots * rows, dtype) for place, dtype in enumerate(dtypes) if dtype.hasobject
        }
        self._first = np.full(blocks, -1, np.int64)
        self._used: OrderedDict[int, int] = OrderedDict()
        self._buffers = Buffers()
        # One batch at a time: what it takes from must stay.
        self._lock = threading.Lock()

    def take(self, blocks: Places, rows: Places) -> list[Rows]:
        """The columns of rows, each given by its block and its number there."""
        with self._lock:
            needed = np.flatnonzero(np.bincount(blocks)).tolist()
            if len(needed) <= self._slots:
                self._fetch(needed)
                return self._gather(self._first[blocks] + rows)
            return self._take_in_turn(needed, blocks, rows)

    def _gather(self, places: Places) -> list[Rows]:
        found = [self._empty(len(places), dtype) for dtype in self._dtypes]
        for low in range(0, len(places), _TOGETHER):
            some = places[low : low + _TOGETHER]
            numbers = self._packed.take(some, mode="clip").view(self._numbers.dtype)
            for place, column in enumerate(found):
                objects = self._objects.get(place)
                values = numbers[str(place)] if objects is None else objects.take(some, mode="clip")
                column[low : low + _TOGETHER] = values
        return found

    def _empty(self, count: int, dtype: np.dtype[Any]) -> Rows:
        return np.empty(count, dtype) if dtype.hasobject else self._buffers.take((count,), dtype)

    def _take_in_turn(self, needed: list[int], blocks: Places, rows: Places) -> list[Rows]:
        """Take from more blocks than there are slots: first from those that are there."""
        needed.sort(key=lambda block: block not in self._used)
        found = [self._empty(len(rows), dtype) for dtype in self._dtypes]
        for low in range(0, len(needed), self._slots):
            some = needed[low : low + self._slots]
            self._fetch(some)
            mine = np.flatnonzero(np.isin(blocks, some))
            for column, values in zip(found, self._gather(self._first[blocks[mine]] + rows[mine]), strict=True):
                column[mine] = values
        return found

    def _fetch(self, needed: list[int]) -> None:
        """Have blocks in slots, at most as many as there are."""
        for block in needed:
            if block in self._used:
                self._used.move_to_end(block)
        for block in needed:
            if block not in self._used:
                slot = self._free_slot()
                for place, values in enumerate(self._load(block)):
                    column = self._objects[place] if place in self._objects else self._numbers[str(place)]
                    column[slot * self._rows : slot * self._rows + len(values)] = values
                self._used[block] = slot
                self._first[block] = slot * self._rows

    def _free_slot(self) -> int:
        if len(self._used) < self._slots:
            return next(slot for slot in range(self._slots) if slot not in set(self._used.values()))
        block, slot = self._used.popitem(last=False)
        self._first[block] = -1
        return slot
