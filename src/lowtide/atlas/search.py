"""Search by name and op, and filters, vectorized over all nodes so that results appear as the user types."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Indices, Mask, offsets
from lowtide.atlas.index.phases import PHASES
from lowtide.program.dtypes import DTYPES

# Bytes of distinct names that are searched at a time, and nodes whose bytes are summed at a time.
_CHUNK = 1 << 24
_NODES = 1 << 20


@dataclass(frozen=True)
class Query:
    """A query; fields that are None or empty do not filter."""

    text: str = ""
    """Part of a name or an op. "attn/MatMul" matches names that start with MatMul in scopes that end in attn."""
    part: int | None = None
    ops: tuple[str, ...] = ()
    scope: str = ""
    device: str = ""
    dtype: str = ""
    phase: str = ""
    least_bytes: int = 0

    @property
    def narrows(self) -> bool:
        """Whether any filter is set."""
        return bool(self.ops or self.scope or self.device or self.dtype or self.phase or self.least_bytes)


@dataclass(frozen=True)
class SearchResult:
    """The number of matching nodes and scopes, and the first of them."""

    scopes: Indices
    nodes: Indices
    total: int


def search(atlas: Atlas, query: Query, limit: int = 50) -> SearchResult:
    """Find scopes and nodes; up to half of the results are scopes."""
    nodes = matching_nodes(atlas, query)
    scopes = np.zeros(0, np.int64) if query.narrows or not query.text else matching_scopes(atlas, query)
    total = int(np.count_nonzero(nodes)) + len(scopes)
    shown = _shallowest(atlas, scopes, limit // 2)
    return SearchResult(shown, _first(nodes, limit - len(shown)), total)


def _first(marks: Mask, count: int) -> Indices:
    """Return the first `count` marked indices without scanning the rest."""
    found = np.zeros(0, np.int64)
    for low in range(0, len(marks), _NODES):
        found = np.concatenate([found, np.flatnonzero(marks[low : low + _NODES]) + low])
        if len(found) >= count:
            break
    return found[:count]


def _shallowest(atlas: Atlas, scopes: Indices, count: int) -> Indices:
    """Return the first `count` scopes, shallow ones first."""
    if not len(scopes) or not count:
        return scopes[:0]
    # Greater depths are treated as equal.
    depth = np.minimum(atlas.column("scope_depth")[scopes], 0xFFFF)
    deepest = int(np.searchsorted(np.cumsum(np.bincount(depth)), min(count, len(scopes))))
    rows = np.flatnonzero(depth <= deepest)
    return scopes[rows[np.argsort(depth[rows], kind="stable")[:count]]]


def matching_nodes(atlas: Atlas, query: Query) -> Mask:
    """Return the mask of matching nodes."""
    marks = np.ones(len(atlas), np.bool_)
    if query.part is not None:
        low, high = atlas.part_range(query.part)
        marks[:low] = marks[high:] = False
    if query.scope:
        marks &= _in_scope(atlas, query)
    if query.ops:
        wanted = [number for number, op in enumerate(atlas.ops) if op in query.ops]
        marks &= _among(len(atlas.ops), wanted)[atlas.op]
    if query.device:
        wanted = [number for number, device in enumerate(atlas.devices) if query.device.lower() in device.lower()]
        marks &= _among(len(atlas.devices), wanted)[atlas.device]
    if query.dtype:
        numbers = [number for number, (name, _) in DTYPES.items() if name == query.dtype]
        marks &= np.isin(atlas.dtype, numbers)
    if query.phase:
        marks &= atlas.phase == (PHASES.index(query.phase) if query.phase in PHASES else len(PHASES))
    if query.least_bytes:
        marks &= _at_least(atlas, query.least_bytes)
    if query.text:
        marks &= _named(atlas, query.text)
    return marks


def node_bytes(atlas: Atlas) -> Indices:
    """Return the bytes of all outputs of each node."""
    sums = offsets(atlas.tensor_bytes)
    first = atlas.first_tensor
    total: Indices = sums[first[1:]] - sums[first[:-1]]
    return total


def _at_least(atlas: Atlas, least: int) -> Mask:
    """Mark the nodes whose outputs have at least `least` bytes; in chunks, since sums take more memory than a mask."""
    marks = np.zeros(len(atlas), np.bool_)
    for low in range(0, len(atlas), _NODES):
        first = atlas.first_tensor[low : low + _NODES + 1].astype(np.int64)
        sums = offsets(atlas.tensor_bytes[first[0] : first[-1]])
        first -= first[0]
        marks[low : low + _NODES] = sums[first[1:]] - sums[first[:-1]] >= least
    return marks


def matching_scopes(atlas: Atlas, query: Query) -> Indices:
    """Return the scopes whose own names match."""
    *above, last = query.text.lower().split("/")
    marks = _text_marks(atlas, last, begins=bool(above))[atlas.scope_leaf]
    if above:
        marks &= _below(atlas, above)[atlas.scope_parent]
    roots = atlas.part_root
    marks[roots] = False
    found = np.flatnonzero(marks)
    if query.part is not None:
        root = int(roots[query.part])
        found = found[(found >= root) & (found < root + int(atlas.scope_size[root]))]
    return found


def _named(atlas: Atlas, text: str) -> Mask:
    *above, last = text.lower().split("/")
    marks: Mask = _text_marks(atlas, last, begins=bool(above))[atlas.leaf]
    if above:
        return marks & _below(atlas, above)[atlas.scope]
    ops = [number for number, op in enumerate(atlas.ops) if last in op.lower()]
    return marks | _among(len(atlas.ops), ops)[atlas.op]


def _below(atlas: Atlas, above: list[str]) -> Mask:
    """Mark the scopes whose paths end in `above`; its first name may be the end of a scope's name."""
    first, *whole = above
    leaf, parent = atlas.scope_leaf, atlas.scope_parent
    marks: Mask = _text_marks(atlas, first, ends=True)[leaf]
    for text in whole:
        marks = marks[parent] & _text_marks(atlas, text, begins=True, ends=True)[leaf]
    return marks


def _in_scope(atlas: Atlas, query: Query) -> Mask:
    marks = np.zeros(len(atlas), np.bool_)
    name = query.scope.strip("/")
    for part in range(len(atlas.parts)) if query.part is None else (query.part,):
        scope = atlas.find_scope(name, part)
        if scope is not None:
            marks[int(atlas.scope_first[scope]) : int(atlas.scope_last[scope])] = True
    return marks


def _among(count: int, numbers: list[int]) -> Mask:
    marks = np.zeros(count, np.bool_)
    marks[numbers] = True
    return marks


def _text_marks(atlas: Atlas, text: str, *, begins: bool = False, ends: bool = False) -> Mask:
    """Mark the distinct names that contain, begin or end with a text, ignoring case."""
    first = atlas.texts_first
    count = len(first) - 1
    wanted = np.frombuffer(text.lower().encode(), np.uint8)
    if not len(wanted):
        return np.ones(count, np.bool_)
    places = _find_text(atlas, wanted)
    owner = np.searchsorted(first, places, side="right") - 1
    fits = places + len(wanted) <= first[owner + 1]
    if begins:
        fits &= places == first[owner]
    if ends:
        fits &= places + len(wanted) == first[owner + 1]
    marks = np.zeros(count, np.bool_)
    marks[owner[fits]] = True
    return marks


def _find_text(atlas: Atlas, wanted: npt.NDArray[np.uint8]) -> Indices:
    """Return the positions of a text in the distinct names."""
    texts = atlas.texts
    found = []
    for low in range(0, len(texts), _CHUNK):
        piece = _lower(texts[low : low + _CHUNK + len(wanted) - 1])
        places = np.flatnonzero(piece[: max(len(piece) - len(wanted) + 1, 0)] == wanted[0])
        for offset in range(1, len(wanted)):
            places = places[piece[places + offset] == wanted[offset]]
        found.append(places + low)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _lower(text: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.where((text >= ord("A")) & (text <= ord("Z")), text + 32, text).astype(np.uint8)
