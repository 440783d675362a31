"""Owner: the one record that says whose bytes some memory is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TENSOR_FIELDS = ("name", "op", "layer", "kind", "dtype", "shape", "bytes", "requested_bytes", "source")
"""The fields that reports of a tide show; the others only apply to groups of buffers and to recorded memory."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A tensor, a variable, a node or a group of like buffers, with the bytes it holds; None where unknown."""

    name: str | None = None
    op: str | None = None
    layer: str | None = None
    kind: str | None = None
    """One of `KINDS`."""
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    bytes: int = 0
    """Bytes that the allocator gave, for all `count` buffers together."""
    requested_bytes: int | None = None
    source: str | None = None
    """The line of the user's program, such as "train.py:66"."""
    count: int = 1
    """The number of buffers with this description."""
    address: int | None = None

    def to_dict(self, fields: Sequence[str] = TENSOR_FIELDS) -> dict[str, Any]:
        """Return some fields as plain data."""
        return {field: getattr(self, field) for field in fields}

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> Owner:
        """Return the owner that `to_dict` described; JSON has a list for the shape."""
        shape = stored.get("shape")
        return Owner(**{**stored, "shape": None if shape is None else tuple(shape)})
