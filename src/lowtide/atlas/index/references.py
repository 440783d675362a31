"""References: the node, and the output of it, that an input names; or a control input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowtide.atlas.index.arrays import Bytes, Hashes, Ids, Indices
from lowtide.atlas.index.names import part_seeds
from lowtide.atlas.index.text import CARET, COLON, BytePositions, hash_spans

CONTROL = np.uint16(0xFFFF)
"""The port of a control input."""
MISSING = np.uint32(0xFFFFFFFF)
"""The source of an input that names no node."""
# Larger ports are stored as this one, the largest that the column can hold.
_LAST_PORT = 0xFFFE
_DIGITS = 5


@dataclass(frozen=True, slots=True)
class References:
    """For each input, the hash of the node name and the port."""

    hash: Hashes
    port: npt.NDArray[np.uint16]


def read_references(data: Bytes, starts: Indices, ends: Indices, part: Ids) -> References:
    """Parse inputs such as `name`, `name:1`, `^name`, and in functions `name:output:0`."""
    filled = starts < ends
    is_control = np.zeros(len(starts), np.bool_)
    is_control[filled] = data[starts[filled]] == CARET
    starts = starts + is_control
    # The name ends at the first colon, the port begins after the last one.
    colons = BytePositions(data, starts, ends, COLON)
    name_end, last = colons.first(starts, ends), colons.last(starts, ends)
    numbered = np.flatnonzero(last >= starts)
    port = np.zeros(len(starts), np.int64)
    port[numbered] = _read_numbers(data, last[numbered] + 1, ends[numbered])
    port = np.minimum(port, _LAST_PORT)
    port[is_control] = CONTROL
    return References(hash_spans(data, starts, name_end) + part_seeds(part), port.astype(np.uint16))


def _read_numbers(data: Bytes, starts: Indices, ends: Indices) -> Indices:
    """Parse the leading decimal digits of each span."""
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
