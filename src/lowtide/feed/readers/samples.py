"""The types that readers and pipelines exchange: sample indices, rows, and the interface of a reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
"""Indices of samples, or their positions in an epoch."""

Rows = npt.NDArray[Any]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SampleField:
    """One tensor of a sample."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    item_bytes: int | None = None
    """The size of one number or text, if the dtype does not give it."""

    @property
    def bytes(self) -> int:
        """The size of the tensor."""
        item = self.dtype.itemsize if self.item_bytes is None else self.item_bytes
        return int(np.prod(self.shape, dtype=np.int64)) * item


class SampleSource(Protocol):
    """A set of samples, for error messages."""

    def where(self, sample: int) -> str:
        """The file and the position of a sample."""
        ...

    def reason(self, sample: int) -> str | None:
        """Why a sample cannot be read; None if it can be read."""
        ...


class SampleReader(SampleSource, Protocol):
    """A set of samples that can be read by index."""

    @property
    def fields(self) -> Sequence[SampleField]:
        """The tensors of each sample."""
        ...

    @property
    def blocks(self) -> Sequence[int] | None:
        """The number of samples of each block; None if samples can be read one by one."""
        ...

    @property
    def count(self) -> int:
        """The number of samples."""
        ...

    def read(self, samples: Indices) -> tuple[list[Rows], Mask]:
        """Return one array per field, and a mask of the samples that could not be read."""
        ...
