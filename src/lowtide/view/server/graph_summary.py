"""The summary of a graph: how many nodes of each op, device, dtype and phase, and its largest functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Column, Indices
from lowtide.atlas.index.phases import PHASES
from lowtide.program.dtypes import dtype_name

# Columns are counted in pieces of this many nodes, because counting copies them.
_PIECE = 1 << 18
_MOST_PARTS, _MOST_KINDS = 500, 1000


def summarize(atlas: Atlas) -> dict[str, Any]:
    """Return the summary that the page shows."""
    return {
        "parts": _parts(atlas),
        "parts_total": len(atlas.parts),
        "ops": _counted(atlas.op, len(atlas.ops), atlas.ops.__getitem__),
        "devices": _counted(atlas.device, len(atlas.devices), atlas.devices.__getitem__),
        "dtypes": _counted(atlas.dtype, 256, lambda number: dtype_name(number) if number else "unknown"),
        "phases": _counted(atlas.phase, len(PHASES), PHASES.__getitem__),
    }


def _parts(atlas: Atlas) -> list[dict[str, Any]]:
    """Return the main graph, then the largest functions."""
    roots = atlas.part_root
    sizes = atlas.scope_last[roots].astype(np.int64) - atlas.scope_first[roots]
    largest = 1 + np.argsort(-sizes[1:], kind="stable")[: _MOST_PARTS - 1]
    return [{"part": part, "name": atlas.parts[part], "nodes": int(sizes[part])} for part in (0, *largest.tolist())]


def _counted(column: Column, kinds: int, name: Callable[[int], str]) -> list[tuple[str, int]]:
    """Return how often each kind occurs, the most frequent first."""
    counts = count_kinds(column, kinds)
    order = np.argsort(-counts, kind="stable")[:_MOST_KINDS]
    return [(name(int(kind)), int(counts[kind])) for kind in order if counts[kind]]


def count_kinds(column: Column, kinds: int) -> Indices:
    """Return how often each number below `kinds` occurs."""
    counts = np.zeros(kinds, np.int64)
    for low in range(0, len(column), _PIECE):
        counts += np.bincount(column[low : low + _PIECE], minlength=kinds)
    return counts
