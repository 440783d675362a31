"""The layout of oneDNN's scratchpads: buffers one after the other, each with room for its alignment."""

from __future__ import annotations

from lowtide.program.facts.shapes import round_up

PAGE_BYTES = 4096
LINE_BYTES = 128
_BATCH_ELEMENT_BYTES = 40  # one small product: two addresses, two paddings and a flag


def booked(size: int, align: int = LINE_BYTES) -> int:
    """Return the bytes that one buffer takes in a scratchpad."""
    return size + align if size else 0


def batch_bytes(products: int) -> int:
    """Return the bytes of a thread's list of small products: full pages, so that threads share no cache line."""
    pages = round_up(products * _BATCH_ELEMENT_BYTES, PAGE_BYTES)
    return round_up(pages, _BATCH_ELEMENT_BYTES)
