"""The tensors that enter and leave a scope or a fold."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Indices, csr_entries
from lowtide.atlas.index.references import CONTROL, MISSING
from lowtide.atlas.node_details import PAGE
from lowtide.atlas.screens.edge_bundles import Ranges, release_after_chunk
from lowtide.atlas.screens.screen import entries_of, tensor_shape


def group_borders(
    atlas: Atlas, part: int, path: str, fold: str = "", inputs_from: int = 0, outputs_from: int = 0
) -> dict[str, Any]:
    """Return the tensors that nodes of a group read from outside, and those of its own that nodes outside read.

    Each list has one page, the tensors with the most bytes first, and the number of all.
    """
    members = entries_of(atlas, part, path, fold)[0]
    ranges = Ranges(members.first, members.last, np.zeros(len(members), np.int64), 1)
    inside = _Membership(ranges)
    read, written = [], []
    for nodes, _ in ranges.chunks():
        read.append(_outside_tensors(atlas, nodes, inside))
        written.append(_tensors_read_outside(atlas, nodes, inside))
        release_after_chunk(atlas, nodes)
    return {"inputs": _page(atlas, read, inputs_from), "outputs": _page(atlas, written, outputs_from)} | {
        "input_count": _count(read),
        "output_count": _count(written),
    }


class _Membership:
    """Whether nodes are in one of some ranges."""

    def __init__(self, ranges: Ranges) -> None:
        order = np.argsort(ranges.first)
        self._first, self._last = ranges.first[order], ranges.last[order]

    def holds(self, nodes: Indices) -> np.ndarray[Any, np.dtype[np.bool_]]:
        place = np.searchsorted(self._first, nodes, side="right") - 1
        found: np.ndarray[Any, np.dtype[np.bool_]] = (place >= 0) & (nodes < self._last[np.maximum(place, 0)])
        return found


def _outside_tensors(atlas: Atlas, nodes: Indices, inside: _Membership) -> Indices:
    places, _ = csr_entries(atlas.first_input, nodes)
    source, port = atlas.inputs[places], atlas.input_port[places]
    known = source != MISSING
    source, port = source[known].astype(np.int64), port[known]
    keys: Indices = _tensor_keys(source, port)[~inside.holds(source)]
    return keys


def _tensors_read_outside(atlas: Atlas, nodes: Indices, inside: _Membership) -> Indices:
    places, counts = csr_entries(atlas.first_reader, nodes)
    readers = atlas.readers[places].astype(np.int64)
    is_outside = ~inside.holds(readers)
    producer, reader = np.repeat(nodes, counts)[is_outside], readers[is_outside]
    # The column of readers has no ports: they are found among the inputs of each reader.
    producer, reader = np.unique(np.stack([producer, reader]), axis=1)
    places, counts = csr_entries(atlas.first_input, reader)
    is_from = atlas.inputs[places] == np.repeat(producer, counts)
    return _tensor_keys(np.repeat(producer, counts)[is_from], atlas.input_port[places][is_from])


_PORTS = 1 << 32


def _tensor_keys(node: Indices, port: Any) -> Indices:
    keys: Indices = node.astype(np.int64) * _PORTS + port.astype(np.int64)
    return keys


def _count(found: list[Indices]) -> int:
    return len(np.unique(np.concatenate(found))) if found else 0


def _page(atlas: Atlas, found: list[Indices], start: int) -> list[dict[str, Any]]:
    if not found:
        return []
    keys, counts = np.unique(np.concatenate(found), return_counts=True)
    node, port = keys // _PORTS, keys % _PORTS
    sizes = atlas.edge_bytes(node, port)
    is_control = port == int(CONTROL)
    order = np.lexsort((-counts, -sizes, is_control))[start : start + PAGE]
    return [
        {
            "name": atlas.name(int(node[row])),
            "op": atlas.op_of(int(node[row])),
            "control": bool(is_control[row]),
            "port": None if is_control[row] else int(port[row]),
            "bytes": int(sizes[row]) or None,
            "shape": None if is_control[row] else tensor_shape(atlas, int(node[row]), int(port[row])),
            "edges": int(counts[row]),
        }
        for row in order
    ]
