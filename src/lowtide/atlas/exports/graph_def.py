"""A cut as a GraphDef that TensorFlow imports: the selected nodes as in the file, with inputs rewired at the cuts.

Unchanged nodes are copied in long spans. An input from a node that was left out is replaced by the input of that node
if it only passes it on, or by an upstream selected node with the same dtype and shape. Otherwise a placeholder with the
name, dtype and shape of the missing output replaces it, and control edges keep the nodes connected.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np

from lowtide.atlas.cuts.cut import Cut
from lowtide.atlas.exports.function_library import called_parts, write_library
from lowtide.atlas.exports.node_patch import Patch, patch_node
from lowtide.atlas.exports.obstacles import check_importable
from lowtide.atlas.exports.rewiring import Rewiring, no_rewiring, rewire
from lowtide.atlas.index.arrays import Bytes, Indices, Mask
from lowtide.atlas.index.columns import MappedFile
from lowtide.atlas.index.node_spans import GRAPH_LIBRARY, GRAPH_NODE, NODE_ATTRIBUTE, read_field_headers
from lowtide.atlas.index.outputs import ENTRY_KEY
from lowtide.atlas.index.references import MISSING
from lowtide.atlas.index.text import hash_spans, hash_text
from lowtide.errors import LowtideError
from lowtide.sources.protobuf.encode import encode_bytes, encode_tag, encode_varint
from lowtide.sources.protobuf.wire_columns import scan
from lowtide.units import format_count

_COLOCATION = np.uint64(hash_text("_class"))
# Nodes examined at a time, and bytes copied at a time.
_CHUNK = 1 << 16
_COPIED = 1 << 22
_PAGE = 1 << 16


def write_graph_def(cut: Cut, path: Path, limit: int | None = None) -> tuple[str, ...]:
    """Write the selected nodes of the main graph and the functions they call; `limit` empties larger attributes."""
    if cut.grouping is not None:
        raise LowtideError("a collapsed graph has no nodes for a .pb", cure="write .json, or leave the collapsing out")
    low, high = cut.atlas.part_range(0)
    nodes = cut.nodes[(cut.nodes >= low) & (cut.nodes < high)]
    if not len(nodes):
        raise LowtideError(
            "all chosen nodes lie in functions, and a .pb keeps functions whole", cure="write .json, .graphml or .dot"
        )
    check_importable(cut.atlas, nodes)
    source = MappedFile(cut.atlas.source.path)
    try:
        with path.open("wb") as file:
            return _GraphDefWriter(cut, nodes, source.data, limit).write(file)
    finally:
        source.close()


class _GraphDefWriter:
    def __init__(self, cut: Cut, nodes: Indices, data: Bytes, limit: int | None) -> None:
        self.cut, self.atlas, self.nodes, self.data, self.limit = cut, cut.atlas, nodes, data, limit
        low, high = self.atlas.part_range(0)
        # Inputs that name no node are replaced like those of nodes that were left out.
        is_damaged = bool((self.atlas.inputs == MISSING).any())
        self.is_cut = len(nodes) < high - low or cut.own_edges is not None or is_damaged
        self.start = self.atlas.column("start")
        self.length = self.atlas.column("length")

    def write(self, file: BinaryIO) -> tuple[str, ...]:
        rewiring = rewire(self.cut, self.nodes, self.data) if self.is_cut else no_rewiring(len(self.nodes))
        emptied = self._write_nodes(file, rewiring)
        for stand_in in rewiring.stand_ins:
            file.write(stand_in.encode())
        called = called_parts(self.atlas, self.nodes) if self.is_cut else np.ones(len(self.atlas.parts), np.bool_)
        for number, start, end in self._other_fields():
            if number == GRAPH_LIBRARY:
                emptied += write_library(file, self.atlas, called, self.data, start, end, self.limit)
            else:
                file.write(encode_bytes(number, self.data[start:end].tobytes()))
        return (*rewiring.notes, *_emptied_note(emptied, self.limit))

    def _write_nodes(self, file: BinaryIO, rewiring: Rewiring) -> int:
        """Write the selected nodes in the order of the file; return the number of emptied attributes."""
        order = np.argsort(self.start[self.nodes], kind="stable")
        emptied = 0
        for low in range(0, len(order), _CHUNK):
            rows = order[low : low + _CHUNK]
            nodes = self.nodes[rows]
            changes = self._needs_patch(nodes) | rewiring.is_changed[rows]
            begin = 0
            for place in np.flatnonzero(changes).tolist():
                self._copy(file, nodes[begin:place])
                start = int(self.start[nodes[place]])
                view = self.data[start : start + int(self.length[nodes[place]])].data
                row = int(rows[place])
                patch = Patch(rewiring.replaced.get(row, {}), rewiring.added.get(row, ()), self.is_cut, self.limit)
                content, count = patch_node(view, patch)
                file.write(encode_bytes(GRAPH_NODE, content))
                emptied += count
                begin = place + 1
            self._copy(file, nodes[begin:])
        return emptied

    def _needs_patch(self, nodes: Indices) -> Mask:
        """Mark the nodes with an attribute that is too large, or with a colocation constraint."""
        marks = np.zeros(len(nodes), np.bool_)
        if self.limit is None and not self.is_cut:
            return marks
        start = self.start[nodes]
        attributes = scan(self.data, start, start + self.length[nodes]).of(NODE_ATTRIBUTE)
        if self.limit is not None:
            marks[attributes.owner[attributes.end - attributes.start > self.limit]] = True
        if self.is_cut:
            keys = scan(self.data, attributes.start, attributes.end).of(ENTRY_KEY)
            hashes = hash_spans(self.data, keys.start, keys.end)
            marks[attributes.owner[keys.owner[hashes == _COLOCATION]]] = True
        return marks

    def _copy(self, file: BinaryIO, nodes: Indices) -> None:
        """Copy nodes unchanged; nodes that are adjacent in the file are copied together."""
        if not len(nodes):
            return
        start, length = self.start[nodes], self.length[nodes]
        end, begin = start + length, start - header_bytes(length)
        follows = begin[1:] == end[:-1]
        borders = np.concatenate([[0], np.flatnonzero(~follows) + 1, [len(nodes)]]).tolist()
        for low, high in pairwise(borders):
            # The first header is re-encoded: its length may be encoded in more bytes than necessary.
            file.write(encode_tag(GRAPH_NODE) + encode_varint(int(length[low])))
            first, last = int(start[low]), int(end[high - 1])
            for position in range(first, last, _COPIED):
                file.write(self.data[position : min(position + _COPIED, last)].data)

    def _other_fields(self) -> Iterator[tuple[int, int, int]]:
        """Yield number, start and end of the fields of the GraphDef that are not nodes."""
        low, high = self.atlas.part_range(0)
        start = np.sort(self.start[low:high])
        length = self.length[low:high][np.argsort(self.start[low:high], kind="stable")]
        finish = min(self.atlas.source.end, len(self.data))
        ends = np.concatenate([[self.atlas.source.start], start + length])
        begins = np.concatenate([start, [finish]])
        expected = np.concatenate([start - header_bytes(length), [finish]])
        for place in np.flatnonzero(ends[: len(expected)] != expected).tolist():
            # Up to the first byte of the next node, so that its header is read as the last field.
            yield from self._fields(int(ends[place]), int(begins[place]), finish)

    def _fields(self, position: int, stop: int, end: int) -> Iterator[tuple[int, int, int]]:
        while position < stop:
            page = self.data[position : min(position + _PAGE, end)].tobytes()
            headers, after = read_field_headers(page, position, end)
            for number, first, last in headers.others:
                if position + first >= stop:
                    return
                if number != GRAPH_NODE:
                    yield number, position + first, position + last
            if headers.problem is not None or after <= position:
                return
            position = after


def header_bytes(length: Indices) -> Indices:
    """Return the bytes of the tag and the shortest encoding of the length of each node."""
    size = np.full(len(length), 2, np.int64)
    for power in range(7, 35, 7):
        size += length >= 1 << power
    return size


def _emptied_note(emptied: int, limit: int | None) -> tuple[str, ...]:
    if not emptied:
        return ()
    verb = "is" if emptied == 1 else "are"
    attributes = f"{format_count(emptied, 'attribute')} of more than {limit:,} bytes"
    return (f"{attributes} {verb} emptied; such constants read as zeros",)
