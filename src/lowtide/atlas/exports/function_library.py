"""The functions that the written nodes call, copied completely."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.exports.node_patch import Patch, fields, patch_node
from lowtide.atlas.index.arrays import Bytes, Indices, Mask
from lowtide.atlas.index.node_spans import FUNCTION_NODE, GRAPH_LIBRARY, LIBRARY_FUNCTION
from lowtide.sources.protobuf.encode import encode_bytes
from lowtide.sources.protobuf.wire import BYTES

_GRADIENT = 2


def write_library(
    file: BinaryIO, atlas: Atlas, called: Mask, data: Bytes, start: int, end: int, limit: int | None
) -> int:
    """Write the called functions; return the number of emptied attributes."""
    names = {atlas.parts[part] for part in np.flatnonzero(called).tolist()}
    pieces = []
    emptied, part = 0, 0
    library = data[start:end].data
    for number, _, low, first, last in fields(library):
        if number == LIBRARY_FUNCTION:
            part += 1
            if part >= len(called) or not called[part]:
                continue
            content, count = _function(library[first:last], limit)
            emptied += count
            pieces.append(encode_bytes(LIBRARY_FUNCTION, content))
        elif number == _GRADIENT and _texts(library[first:last]) <= names:
            pieces.append(bytes(library[low:last]))
    if pieces:
        file.write(encode_bytes(GRAPH_LIBRARY, b"".join(pieces)))
    return emptied


def called_parts(atlas: Atlas, nodes: Indices) -> Mask:
    """Mark the functions that some nodes call, directly or through other functions."""
    node, part = _calls(atlas)
    called = np.zeros(len(atlas.parts), np.bool_)
    called[part[np.isin(node, nodes)]] = True
    fresh = np.flatnonzero(called)
    while len(fresh):
        ranges = [atlas.part_range(each) for each in fresh.tolist()]
        inside = np.concatenate([part[(node >= low) & (node < high)] for low, high in ranges])
        fresh = np.unique(inside[~called[inside]])
        called[fresh] = True
    return called


def _calls(atlas: Atlas) -> tuple[Indices, Indices]:
    """Return callers and called parts: a node calls a function by an attribute or by its op."""
    number = {name: part for part, name in enumerate(atlas.parts) if part}
    by_op = np.array([number.get(op, 0) for op in atlas.ops], np.int64)
    callers = np.flatnonzero(by_op[atlas.op]) if by_op.any() else np.zeros(0, np.int64)
    node = np.concatenate([atlas.column("call_node").astype(np.int64), callers])
    return node, np.concatenate([atlas.column("call_part").astype(np.int64), by_op[atlas.op[callers]]])


def _function(function: memoryview, limit: int | None) -> tuple[bytes, int]:
    if limit is None:
        return bytes(function), 0
    pieces: list[bytes | memoryview] = []
    emptied = 0
    for number, kind, low, first, last in fields(function):
        if number == FUNCTION_NODE and kind == BYTES:
            patched, count = patch_node(function[first:last], Patch(limit=limit))
            emptied += count
            pieces.append(encode_bytes(number, patched))
        else:
            pieces.append(function[low:last])
    return b"".join(pieces), emptied


def _texts(message: memoryview) -> set[str]:
    return {bytes(message[first:last]).decode(errors="replace") for *_, first, last in fields(message)}
