"""How oneDNN books a scratchpad: buffers one after the other, each with room to align it."""

from __future__ import annotations

PAGE_BYTES = 4096
LINE_BYTES = 128
_BATCH_ELEMENT_BYTES = 40  # two addresses, two paddings and a flag: one product in a chain of small products


def divide_up(value: int, by: int) -> int:
    """How many pieces of a size cover a value."""
    return -(-value // by)


def round_up(value: int, to: int) -> int:
    """The next multiple."""
    return divide_up(value, to) * to


def booked(size: int, align: int = LINE_BYTES) -> int:
    """Bytes that one buffer takes in a scratchpad."""
    return size + align if size else 0


def batch_bytes(products: int) -> int:
    """A thread's list of small products: whole pages, so that no two threads write to one cache line."""
    pages = round_up(products * _BATCH_ELEMENT_BYTES, PAGE_BYTES)
    return round_up(pages, _BATCH_ELEMENT_BYTES)
