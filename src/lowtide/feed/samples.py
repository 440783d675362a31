"""Samples that can be read by number: what each is made of, and how to read some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from lowtide.errors import LowtideError
from lowtide.feed.array_files import ArrayFile, Rows
from lowtide.feed.blocks import Blocks
from lowtide.feed.buffers import Buffers
from lowtide.feed.order import Places


@dataclass(frozen=True)
class Field:
    """One tensor of a sample."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """What it takes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


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

    def read(self, places: Places) -> list[Rows]:
        """The fields of some samples, each as one array."""
        ...


@dataclass
class Arrays:
    """Samples that are the rows of arrays of the same length."""

    arrays: Sequence[ArrayFile]
    blocks_read: Blocks = field(default_factory=Blocks)
    _buffers: Buffers = field(default_factory=Buffers, init=False)

    def __post_init__(self) -> None:
        lengths = {array.name: array.shape[0] for array in self.arrays}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {length:,} rows" for name, length in lengths.items())
            raise LowtideError("the arrays are not equally long", given=told, cure="give one row for each sample")
        if self.count == 0:
            raise LowtideError("there are no samples", given=", ".join(lengths), cure="give an array with rows")

    @property
    def fields(self) -> list[Field]:
        return [Field(array.name, array.shape[1:], array.dtype) for array in self.arrays]

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

    def read(self, places: Places) -> list[Rows]:
        found = []
        for number, array in enumerate(self.arrays):
            rows = self._buffers.take((len(places), *array.shape[1:]), array.dtype)
            if array.block == 1:
                array.read(places, rows)
            else:
                self._read_blocks(number, places, rows)
            found.append(rows)
        return found

    def _read_blocks(self, number: int, places: Places, rows: Rows) -> None:
        array = self.arrays[number]
        block = places // array.block

        def load(low: int) -> list[Rows]:
            wanted = np.arange(low, min(low + array.block, array.shape[0]))
            content = self._buffers.take((len(wanted), *array.shape[1:]), array.dtype)
            array.read(wanted, content)
            return [content]

        for which in np.unique(block).tolist():
            low = which * array.block
            (content,) = self.blocks_read.get((number, which), partial(load, low))
            mine = np.flatnonzero(block == which)
            rows[mine] = content[places[mine] - low]

    def where(self, sample: int) -> str:
        return f"row {sample} of {self.arrays[0].name}"

    def reason(self, sample: int) -> str:
        return "it cannot be read"
