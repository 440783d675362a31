"""Samples that can be read by number: what each is made of, and how to read some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.order import Places
from lowtide.feed.readers.array_files import ArrayFile, Rows
from lowtide.feed.readers.block_cache import Blocks
from lowtide.feed.readers.buffer_pool import Buffers

Missing = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Field:
    """One tensor of a sample."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    item_bytes: int | None = None
    """What one number or text takes, if it is not what its type says."""

    @property
    def bytes(self) -> int:
        """What it takes."""
        item = self.dtype.itemsize if self.item_bytes is None else self.item_bytes
        return int(np.prod(self.shape, dtype=np.int64)) * item


class Samples(Protocol):
    """A set of samples."""

    @property
    def fields(self) -> Sequence[Field]:
        """What each sample is made of."""
        ...

    @property
    def blocks(self) -> Sequence[int] | None:
        """How many samples each block has, where they can be read block by block only."""
        ...

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def read(self, places: Places) -> tuple[list[Rows], Missing]:
        """The fields of some samples, each as one array, and which of the samples could not be read."""
        ...


@dataclass
class Arrays:
    """Samples that are the rows of arrays of the same length."""

    arrays: Sequence[ArrayFile]
    blocks_read: Blocks = field(default_factory=Blocks)
    _buffers: Buffers = field(default_factory=Buffers, init=False)
    _damaged: dict[tuple[int, int], str] = field(default_factory=dict, init=False)
    """Of an array and a block of it that cannot be read, why."""

    def __post_init__(self) -> None:
        lengths = {array.name: array.shape[0] for array in self.arrays}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {length:,} rows" for name, length in lengths.items())
            raise LowtideError("the arrays are not equally long", given=told, cure="give one row for each sample")
        if self.count == 0:
            raise LowtideError("there are no samples", given=", ".join(lengths), cure="give an array with rows")

    @property
    def fields(self) -> list[Field]:
        return [Field(array.name, array.shape[1:], array.dtype, array.item_bytes) for array in self.arrays]

    @property
    def count(self) -> int:
        return self.arrays[0].shape[0]

    @property
    def block(self) -> int:
        """How many rows have to be read at once."""
        return max(array.block for array in self.arrays)

    @property
    def blocks(self) -> list[int] | None:
        if self.block == 1:
            return None
        whole, rest = divmod(self.count, self.block)
        return [self.block] * whole + [rest] * bool(rest)

    def read(self, places: Places) -> tuple[list[Rows], Missing]:
        found = []
        missing = np.zeros(len(places), np.bool_)
        for number, array in enumerate(self.arrays):
            rows = self._room(array, len(places))
            if array.is_mapped:
                array.read(places, rows)
            elif array.block == 1:
                self._read_rows(number, places, rows, missing)
            else:
                self._read_blocks(number, places, rows, missing)
            # TensorFlow would take texts for ASCII.
            found.append(np.char.encode(rows, "utf-8") if array.dtype.kind == "U" else rows)
        return found, missing

    def _room(self, array: ArrayFile, count: int) -> Rows:
        shape = (count, *array.shape[1:])
        # Python's objects cannot lie in memory of our own.
        return np.empty(shape, array.dtype) if array.dtype.hasobject else self._buffers.take(shape, array.dtype)

    def _read_rows(self, number: int, places: Places, rows: Rows, missing: Missing) -> None:
        array = self.arrays[number]
        try:
            array.read(places, rows)
        except Exception:
            for place in range(len(places)):
                missing[place] |= not self._can_read(number, places[place : place + 1], rows[place : place + 1])

    def _read_blocks(self, number: int, places: Places, rows: Rows, missing: Missing) -> None:
        array = self.arrays[number]
        block = places // array.block

        def load(low: int) -> list[Rows]:
            wanted = np.arange(low, min(low + array.block, array.shape[0]))
            content = self._room(array, len(wanted))
            return [content] if self._can_read(number, wanted, content) else []

        for which in np.unique(block).tolist():
            low = which * array.block
            mine = np.flatnonzero(block == which)
            content = self.blocks_read.get((number, which), partial(load, low))
            if content:
                rows[mine] = content[0][places[mine] - low]
            else:
                missing[mine] = True

    def _can_read(self, number: int, wanted: Places, rows: Rows) -> bool:
        """Read rows that are a block; of a block that cannot be read note why, and do not read it again."""
        array = self.arrays[number]
        key = number, int(wanted[0]) // array.block
        if key in self._damaged:
            return False
        try:
            array.read(wanted, rows)
        # Each library has errors of its own for chunks that it cannot decode.
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
