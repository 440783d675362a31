"""Recognizes whether a file without a suffix or header is a GraphDef, a MetaGraphDef or a SavedModel.

The three messages have the same field numbers, so their nested messages are compared: nodes, graphs and meta graphs. A
few fields are enough, and a damaged one does not hide the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from lowtide.sources.protobuf.wire import BYTES, OPEN_END, VARINT, Buffer, WireError, read_text, walk

GRAPH, META_GRAPH, SAVED_MODEL = "graph", "meta graph", "saved model"

_LOOKED_AT = 32
_OP = re.compile(r"[!-~]+…?")

Field = tuple[int, int, int, int]


def recognize(data: Buffer) -> str | None:
    """Return which message the data are, or None."""
    fields = list(_first_fields(data, 0, OPEN_END))
    if _is_graph(data, fields):
        return GRAPH
    inner = [(start, end) for number, kind, start, end in fields if (number, kind) == (2, BYTES)]
    if any(is_graph(data, *place) for place in inner):
        return META_GRAPH
    if any(_holds_graph(data, *place) for place in inner):
        return SAVED_MODEL
    return None


def is_graph(data: Buffer, start: int, end: int) -> bool:
    """Whether the byte range is a GraphDef that is not empty."""
    return _is_graph(data, list(_first_fields(data, start, end)))


def _is_graph(data: Buffer, fields: list[Field]) -> bool:
    messages = [(number, start, end) for number, kind, start, end in fields if kind == BYTES]
    # A SavedModel begins with the version of its schema.
    if any((number, kind) == (1, VARINT) for number, kind, _, _ in fields):
        return False
    if any(number == 1 for number, _, _ in messages):
        return any(number == 1 and _is_node(data, start, end) for number, start, end in messages)
    return any(
        (number == 2 and _is_library(data, start, end)) or (number == 4 and _is_version(data, start, end))
        for number, start, end in messages
    )


def _holds_graph(data: Buffer, start: int, end: int) -> bool:
    fields = _first_fields(data, start, end)
    return any((number, kind) == (2, BYTES) and is_graph(data, first, last) for number, kind, first, last in fields)


def _is_node(data: Buffer, start: int, end: int) -> bool:
    """Whether there are a name and an op; field 2 of a meta graph's first message is not text."""
    name = op = None
    for number, kind, first, last in _first_fields(data, start, end):
        if kind != BYTES:
            return False
        if number == 1:
            name = first
        elif number == 2:
            op = read_text(data, first, last)
    return name is not None and op is not None and _OP.fullmatch(op) is not None


def _is_library(data: Buffer, start: int, end: int) -> bool:
    """Whether the first function has a signature with a name."""
    for _ in range(2):
        first = next(_first_fields(data, start, end), None)
        if first is None or first[:2] != (1, BYTES):
            return False
        start, end = first[2:]
    name = next(_first_fields(data, start, end), None)
    return name is not None and name[:2] == (1, BYTES) and _OP.fullmatch(read_text(data, *name[2:])) is not None


def _is_version(data: Buffer, start: int, end: int) -> bool:
    fields = list(_first_fields(data, start, end))
    return bool(fields) and all(number <= 3 for number, _, _, _ in fields) and fields[0][1] == VARINT


def _first_fields(data: Buffer, start: int, end: int) -> Iterator[Field]:
    """Yield the first fields, up to one that cannot be read."""
    try:
        yield from islice(walk(data, start, end), _LOOKED_AT)
    except WireError:
        return
