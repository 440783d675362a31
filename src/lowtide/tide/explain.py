"""Who holds the bytes: questions about one moment of a tide, answered as typed rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lowtide.tide.kinds import KINDS, SLACK

if TYPE_CHECKING:
    from lowtide.tide.tide import Tide


@dataclass(frozen=True)
class HeldTensor:
    """One buffer that is alive at a moment of the step."""

    name: str
    op: str
    layer: str | None
    kind: str
    dtype: str
    shape: tuple[int, ...] | None
    bytes: int
    requested_bytes: int
    source: str | None


@dataclass(frozen=True)
class LayerShare:
    """What one layer holds at a moment of the step; `layer` is None for all that belongs to no layer."""

    layer: str | None
    bytes: int
    buffers: int
    by_kind: dict[str, int]


@dataclass(frozen=True)
class Place:
    """Where in the program a moment of the step is."""

    event: int
    node: str | None
    op: str | None
    layer: str | None
    backward: bool

    def __str__(self) -> str:
        where = self.layer or self.node or "before the step"
        of = f"gradient of {where}" if self.backward else where
        return f"{of} ({self.op})" if self.op else of


def alive_at(tide: Tide, event: int) -> npt.NDArray[np.intp]:
    """Return the rows of the buffers that are alive after `event`, largest first."""
    buffers = tide.buffers
    rows = np.flatnonzero((buffers.born <= event) & (event < buffers.died))
    # A stable order, so that equal sizes are listed as they were allocated.
    return rows[np.argsort(-buffers.allocated[rows], kind="stable")]


def held_tensors(tide: Tide, rows: Iterable[int]) -> tuple[HeldTensor, ...]:
    """Return the given rows of the buffers as typed rows."""
    buffers = tide.buffers
    return tuple(
        HeldTensor(
            name=buffers.name[row],
            op=buffers.op[row],
            layer=buffers.layer[row],
            kind=buffers.kind_of(row),
            dtype=buffers.dtype[row],
            shape=buffers.shape[row],
            bytes=int(buffers.allocated[row]),
            requested_bytes=int(buffers.requested[row]),
            source=buffers.source[row],
        )
        for row in (int(row) for row in rows)
    )


def breakdown_at(tide: Tide, event: int) -> dict[str, int]:
    """Return the bytes each kind holds after `event`, and as "slack" what the allocator gave beyond the requests."""
    buffers, rows = tide.buffers, alive_at(tide, event)
    requested = buffers.requested[rows]
    # bincount would add up in floating point; these are exact.
    totals = np.zeros(len(KINDS), np.int64)
    np.add.at(totals, buffers.kind[rows], requested)
    shares = {kind: int(total) for kind, total in zip(KINDS, totals, strict=True)}
    shares[SLACK] = int(buffers.allocated[rows].sum() - requested.sum())
    return shares


def layers_at(tide: Tide, event: int) -> tuple[LayerShare, ...]:
    """Return what each layer holds after `event`, largest first."""
    buffers = tide.buffers
    rows = alive_at(tide, event).tolist()
    return share_by_layer((buffers.layer[row], buffers.kind_of(row), int(buffers.allocated[row]), 1) for row in rows)


def share_by_layer(parts: Iterable[tuple[str | None, str, int, int]]) -> tuple[LayerShare, ...]:
    """Return what each layer holds, largest first; a part is a layer, a kind, its bytes and its buffers."""
    total: dict[str | None, int] = {}
    count: dict[str | None, int] = {}
    kinds: dict[str | None, dict[str, int]] = {}
    for layer, kind, size, buffers in parts:
        total[layer] = total.get(layer, 0) + size
        count[layer] = count.get(layer, 0) + buffers
        of_layer = kinds.setdefault(layer, {})
        of_layer[kind] = of_layer.get(kind, 0) + size
    order = sorted(total, key=lambda layer: -total[layer])
    return tuple(LayerShare(layer, total[layer], count[layer], kinds[layer]) for layer in order)


def place_at(tide: Tide, event: int) -> Place:
    """Return which node, op and layer `event` belongs to."""
    curve, buffers = tide.curve, tide.buffers
    if event == 0:
        return Place(0, None, None, None, backward=False)
    node = curve.nodes[int(curve.node[event])]
    # A node's op and layer are known from what it allocated: its newest buffer up to this moment.
    row = _newest_row(tide, event, node)
    if row is None:
        return Place(event, node, None, None, backward=_in_gradient_scope(node))
    backward = buffers.kind_of(row) == "gradients" or _in_gradient_scope(node)
    return Place(event, node, buffers.op[row], buffers.layer[row], backward)


def _newest_row(tide: Tide, event: int, node: str) -> int | None:
    buffers = tide.buffers
    born_here = np.flatnonzero(buffers.born == event)
    if born_here.size:
        return int(born_here[0])
    earlier = np.flatnonzero((buffers.born <= event) & (buffers.born > 0))
    for row in earlier[np.argsort(-buffers.born[earlier], kind="stable")].tolist():
        if buffers.name[row].rpartition(":")[0] == node:
            return int(row)
    return None


def _in_gradient_scope(node: str) -> bool:
    return "gradient_tape/" in node


def strata(tide: Tide) -> npt.NDArray[np.int64]:
    """Return bytes[kind, event] of the whole step; the last row is slack, and each column adds up to the curve."""
    buffers, events = tide.buffers, len(tide.curve.bytes_in_use)
    change = np.zeros((len(KINDS), events + 1), np.int64)
    np.add.at(change, (buffers.kind, buffers.born), buffers.requested)
    np.subtract.at(change, (buffers.kind, np.maximum(buffers.died, buffers.born)), buffers.requested)
    layers = np.cumsum(change, axis=1)[:, :events]
    slack = np.maximum(tide.curve.bytes_in_use - layers.sum(axis=0), 0)
    return np.vstack([layers, slack[None, :]])
