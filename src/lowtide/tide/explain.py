"""What holds the memory at one moment of a tide: tensors, layers, kinds, and the position in the program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowtide.tide.columns import TideColumns
from lowtide.tide.kinds import KINDS, SLACK
from lowtide.tide.owner import Owner


@dataclass(frozen=True)
class LayerShare:
    """What one layer holds at a moment of the step; `layer` is None for everything that belongs to no layer."""

    layer: str | None
    bytes: int
    buffers: int
    by_kind: dict[str, int]


# Scopes that TensorFlow puts around the step of `fit`, and around the gradients of a tape.
_STEP_SCOPE, _GRADIENT_SCOPE = "StatefulPartitionedCall/", "gradient_tape/"


@dataclass(frozen=True)
class ProgramPoint:
    """The position in the program that an event of the step belongs to."""

    event: int
    node: str | None
    op: str | None
    layer: str | None
    backward: bool

    def __str__(self) -> str:
        where, backward = self.layer, self.backward
        if where is None:
            node = (self.node or "before the step").removeprefix(_STEP_SCOPE)
            # Optimizers use gradients, and their ops count as backward, but are no gradients.
            backward, where = _in_gradient_scope(node), node.removeprefix(_GRADIENT_SCOPE)
        if where == self.op:
            # An eager op without a layer has no name but its type.
            return f"{where} of the backward pass" if backward else where
        of = f"gradient of {where}" if backward else where
        return f"{of} ({self.op})" if self.op else of


def alive_at(tide: TideColumns, event: int) -> npt.NDArray[np.intp]:
    """Return the rows of the buffers that are alive after `event`, largest first."""
    buffers = tide.buffers
    rows = np.flatnonzero((buffers.born <= event) & (event < buffers.died))
    # The sort is stable, so that buffers of equal size stay in the order of their allocation.
    return rows[np.argsort(-buffers.allocated[rows], kind="stable")]


def owners_of(tide: TideColumns, rows: Iterable[int]) -> tuple[Owner, ...]:
    """Return the owners of the given rows of the buffers."""
    buffers = tide.buffers
    return tuple(
        Owner(
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


def breakdown_at(tide: TideColumns, event: int) -> dict[str, int]:
    """Return the bytes that each kind requested, alive after `event`; "slack" is what the allocator gave beyond."""
    buffers, rows = tide.buffers, alive_at(tide, event)
    requested = buffers.requested[rows]
    # np.bincount would add in floating point; this is exact.
    totals = np.zeros(len(KINDS), np.int64)
    np.add.at(totals, buffers.kind[rows], requested)
    shares = {kind: int(total) for kind, total in zip(KINDS, totals, strict=True)}
    shares[SLACK] = int(buffers.allocated[rows].sum() - requested.sum())
    return shares


def layers_at(tide: TideColumns, event: int) -> tuple[LayerShare, ...]:
    """Return what each layer holds after `event`, largest first."""
    return share_by_layer(owners_of(tide, alive_at(tide, event)))


def share_by_layer(owners: Iterable[Owner], unknown_kind: str = "other") -> tuple[LayerShare, ...]:
    """Return what each layer holds, largest first; owners without a kind count as `unknown_kind`."""
    total: dict[str | None, int] = {}
    count: dict[str | None, int] = {}
    kinds: dict[str | None, dict[str, int]] = {}
    for owner in owners:
        layer, kind = owner.layer, owner.kind or unknown_kind
        total[layer] = total.get(layer, 0) + owner.bytes
        count[layer] = count.get(layer, 0) + owner.count
        of_layer = kinds.setdefault(layer, {})
        of_layer[kind] = of_layer.get(kind, 0) + owner.bytes
    order = sorted(total, key=lambda layer: -total[layer])
    return tuple(LayerShare(layer, total[layer], count[layer], kinds[layer]) for layer in order)


def point_at(tide: TideColumns, event: int) -> ProgramPoint:
    """Return the node, op and layer that `event` belongs to."""
    curve, buffers = tide.curve, tide.buffers
    if event == 0:
        return ProgramPoint(0, None, None, None, backward=False)
    node = curve.nodes[int(curve.node[event])]
    # The op and layer of a node are those of the newest buffer that it allocated up to this event.
    row = _newest_row(tide, event, node)
    if row is None:
        return ProgramPoint(event, node, None, None, backward=_in_gradient_scope(node))
    backward = buffers.kind_of(row) == "gradients" or _in_gradient_scope(node)
    return ProgramPoint(event, node, buffers.op[row], buffers.layer[row], backward)


def _newest_row(tide: TideColumns, event: int, node: str) -> int | None:
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


def bytes_by_kind(tide: TideColumns) -> npt.NDArray[np.int64]:
    """Return bytes[kind, event] for all events; the last row is slack, and each column adds up to the curve."""
    buffers, events = tide.buffers, len(tide.curve.bytes_in_use)
    change = np.zeros((len(KINDS), events + 1), np.int64)
    np.add.at(change, (buffers.kind, buffers.born), buffers.requested)
    np.subtract.at(change, (buffers.kind, np.maximum(buffers.died, buffers.born)), buffers.requested)
    requested = np.cumsum(change, axis=1)[:, :events]
    slack = np.maximum(tide.curve.bytes_in_use - requested.sum(axis=0), 0)
    return np.vstack([requested, slack[None, :]])
