"""Samples that are the rows of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from lowtide.errors import LowtideError
from lowtide.feed.readers.array_files import ArrayFile
from lowtide.feed.readers.block_cache import BlockCache
from lowtide.feed.readers.buffer_pool import BufferPool
from lowtide.feed.readers.samples import Indices, Mask, Rows, SampleField
from lowtide.units import format_count


@dataclass
class ArraySamples:
    """Samples that are the rows of arrays of the same length."""

    arrays: Sequence[ArrayFile]
    cache: BlockCache = field(default_factory=BlockCache)
    _buffers: BufferPool = field(default_factory=BufferPool, init=False)
    _damaged: dict[tuple[int, int], str] = field(default_factory=dict, init=False)
    """Why a block cannot be read, by array and block."""

    def __post_init__(self) -> None:
        lengths = {array.name: array.shape[0] for array in self.arrays}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} has {format_count(length, 'row')}" for name, length in lengths.items())
            raise LowtideError("the arrays differ in length", given=listed, cure="give one row for each sample")
        if self.count == 0:
            raise LowtideError("there are no samples", given=", ".join(lengths), cure="give an array with rows")

    @property
    def fields(self) -> list[SampleField]:
        return [SampleField(array.name, array.shape[1:], array.dtype, array.item_bytes) for array in self.arrays]

    @property
    def count(self) -> int:
        return self.arrays[0].shape[0]

    @property
    def block(self) -> int:
        """The number of rows that have to be read together."""
        return max(array.block for array in self.arrays)

    @property
    def blocks(self) -> list[int] | None:
        if self.block == 1:
            return None
        full, rest = divmod(self.count, self.block)
        return [self.block] * full + [rest] * bool(rest)

    def read(self, samples: Indices) -> tuple[list[Rows], Mask]:
        fields = []
        missing = np.zeros(len(samples), np.bool_)
        for number, array in enumerate(self.arrays):
            rows = self._empty_rows(array, len(samples))
            if array.is_mapped:
                array.read(samples, rows)
            elif array.block == 1:
                self._read_rows(number, samples, rows, missing)
            else:
                self._read_blocks(number, samples, rows, missing)
            # TensorFlow would encode texts as ASCII.
            fields.append(np.char.encode(rows, "utf-8") if array.dtype.kind == "U" else rows)
        return fields, missing

    def _empty_rows(self, array: ArrayFile, count: int) -> Rows:
        return self._buffers.take((count, *array.shape[1:]), array.dtype)

    def _read_rows(self, number: int, samples: Indices, rows: Rows, missing: Mask) -> None:
        try:
            self.arrays[number].read(samples, rows)
        except Exception:
            # Find out which of the rows cannot be read.
            for at in range(len(samples)):
                missing[at] |= not self._can_read(number, samples[at : at + 1], rows[at : at + 1])

    def _read_blocks(self, number: int, samples: Indices, rows: Rows, missing: Mask) -> None:
        array = self.arrays[number]
        block_of = samples // array.block

        def load(low: int) -> list[Rows]:
            wanted = np.arange(low, min(low + array.block, array.shape[0]))
            content = self._empty_rows(array, len(wanted))
            return [content] if self._can_read(number, wanted, content) else []

        for block in np.unique(block_of).tolist():
            low = block * array.block
            chosen = np.flatnonzero(block_of == block)
            content = self.cache.get((number, block), partial(load, low))
            if content:
                rows[chosen] = content[0][samples[chosen] - low]
            else:
                missing[chosen] = True

    def _can_read(self, number: int, wanted: Indices, rows: Rows) -> bool:
        """Read the rows of one block; if that fails, note why and do not try again."""
        array = self.arrays[number]
        key = number, int(wanted[0]) // array.block
        if key in self._damaged:
            return False
        try:
            array.read(wanted, rows)
        # Each library raises its own errors for chunks that it cannot decode.
        except Exception as error:
            which = f"row {wanted[0]:,}" if len(wanted) == 1 else f"rows {wanted[0]:,} to {wanted[-1]:,}"
            self._damaged[key] = f"{which} of {array.name} cannot be read: {error or type(error).__name__}"
        return key not in self._damaged

    def where(self, sample: int) -> str:
        number = next((number for number, _ in self._damage(sample)), 0)
        return f"row {sample} of {self.arrays[number].name}"

    def reason(self, sample: int) -> str:
        return next((reason for _, reason in self._damage(sample)), "it cannot be read")

    def _damage(self, sample: int) -> Iterator[tuple[int, str]]:
        for number, array in enumerate(self.arrays):
            key = number, sample // array.block
            if key in self._damaged:
                yield number, self._damaged[key]
