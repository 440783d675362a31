"""What the inputs of nodes name: another node, which of its outputs, or that it has only to have run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lowtide.atlas.names import part_seeds
from lowtide.atlas.text import CARET, COLON, Bytes, Hashes, Places, gather, running_hashes

CONTROL = np.uint16(0xFFFF)
"""The port of an input that is only waited for."""
# A port behind this is taken for the last one that a column can tell.
_LAST_PORT = 0xFFFE
_DIGITS = 5
_TEXT_BYTES = 1 << 19


@dataclass(frozen=True, slots=True)
class References:
    """Inputs: the hash of the node that each names, and its port."""

    hash: Hashes
    port: npt.NDArray[np.uint16]


def read_references(data: Bytes, starts: Places, ends: Places, part: npt.NDArray[np.uint32]) -> References:
    """Read inputs such as `name`, `name:1`, `^name`, and in functions `name:output:0`."""
    # A node may have thousands of inputs: each byte of text takes some dozens while it is hashed.
    pieces = np.cumsum(ends - starts) // _TEXT_BYTES
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(pieces)) + 1, [len(starts)]])
    read = [_read_some(data, starts[low:high], ends[low:high], part[low:high]) for low, high in pairwise(cuts)]
    return References(np.concatenate([each.hash for each in read]), np.concatenate([each.port for each in read]))


def _read_some(data: Bytes, starts: Places, ends: Places, part: npt.NDArray[np.uint32]) -> References:
    filled = starts < ends
    is_control = np.zeros(len(starts), np.bool_)
    is_control[filled] = data[starts[filled]] == CARET
    starts = starts + is_control
    texts = gather(data, starts, ends)
    colons = np.flatnonzero(texts.content == COLON)
    owner = np.searchsorted(texts.first, colons, side="right") - 1
    places = colons + (starts - texts.first[:-1])[owner]
    # The name ends at the first colon, and the number begins behind the last one.
    name_end = texts.first[1:].copy()
    name_end[owner[::-1]] = colons[::-1]
    port = np.zeros(len(starts), np.int64)
    last = np.zeros(len(starts), np.int64)
    last[owner] = places + 1
    numbered = np.unique(owner)
    port[numbered] = _read_numbers(data, last[numbered], ends[numbered])
    port = np.minimum(port, _LAST_PORT)
    port[is_control] = CONTROL
    sums = running_hashes(texts)
    return References(sums[name_end] - sums[texts.first[:-1]] + part_seeds(part), port.astype(np.uint16))


def _read_numbers(data: Bytes, starts: Places, ends: Places) -> Places:
    """Whole numbers in decimal digits, as far as they go."""
    value = np.zeros(len(starts), np.int64)
    reading = starts < ends
    for digit in range(_DIGITS):
        rows = np.flatnonzero(reading & (starts + digit < ends))
        byte = data[starts[rows] + digit].astype(np.int64) - ord("0")
        is_digit = (byte >= 0) & (byte <= 9)
        reading[:] = False
        reading[rows[is_digit]] = True
        value[rows[is_digit]] = value[rows[is_digit]] * 10 + byte[is_digit]
    return value
