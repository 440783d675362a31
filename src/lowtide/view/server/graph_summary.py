"""What a graph is made of: how many nodes of each op, device, dtype and phase, and its largest functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.columns import Column
from lowtide.atlas.index.phases import PHASES
from lowtide.program.dtypes import dtype_name

# Columns are counted so many nodes at a time: counting copies what it counts.
_PIECE = 1 << 18
_MOST_PARTS, _MOST_KINDS = 500, 1000


def summarize(atlas: Atlas) -> dict[str, Any]:
    """Return what the page says of a graph."""
    return {
        "parts": _parts(atlas),
        "parts_total": len(atlas.parts),
        "ops": _counted(atlas.op, len(atlas.ops), atlas.ops.__getitem__),
        "devices": _counted(atlas.device, len(atlas.devices), atlas.devices.__getitem__),
        "dtypes": _counted(atlas.dtype, 256, lambda number: dtype_name(number) if number else "unknown"),
        "phases": _counted(atlas.phase, len(PHASES), PHASES.__getitem__),
    }


def _parts(atlas: Atlas) -> list[dict[str, Any]]:
    """The main graph, then the largest functions."""
    roots = atlas.part_root
    sizes = atlas.scope_last[roots].astype(np.int64) - atlas.scope_first[roots]
    largest = 1 + np.argsort(-sizes[1:], kind="stable")[: _MOST_PARTS - 1]
    return [{"part": part, "name": atlas.parts[part], "nodes": int(sizes[part])} for part in (0, *largest.tolist())]


def _counted(column: Column, kinds: int, name: Callable[[int], str]) -> list[tuple[str, int]]:
    """How often each kind occurs, the most frequent first."""
    counts = count_kinds(column, kinds)
    order = np.argsort(-counts, kind="stable")[:_MOST_KINDS]
    return [(name(int(kind)), int(counts[kind])) for kind in order if counts[kind]]


def count_kinds(column: Column, kinds: int) -> npt.NDArray[np.int64]:
    """How often each number below `kinds` occurs."""
    counts = np.zeros(kinds, np.int64)
    for low in range(0, len(column), _PIECE):
        counts += np.bincount(column[low : low + _PIECE], minlength=kinds)
    return counts
