"""A shortage: what was asked for and could not be had, who held the memory then, and why it was not enough."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lowtide.tide.explain import LayerShare, share_by_layer
from lowtide.tide.owner import Owner

if TYPE_CHECKING:
    from lowtide.oom.cause import Cause
    from lowtide.tide.tide import Tide

JSON_SCHEMA_VERSION = 1

UNKNOWN_KIND = "unknown"
"""What `by_kind` calls what nobody named: the blocks of a log have sizes only."""


@dataclass(frozen=True)
class Request:
    """What could not be allocated, as far as it is known."""

    bytes: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    node: str | None = None
    device: str | None = None
    allocator: str | None = None
    op: str | None = None
    source: str | None = None
    """The line of the user's own program, as in "train.py:66"."""


@dataclass(frozen=True)
class Holder:
    """One buffer that was held when memory ran out, or so many of them that are alike."""

    bytes: int
    """Of all `count` together."""
    count: int = 1
    name: str | None = None
    op: str | None = None
    layer: str | None = None
    kind: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    requested_bytes: int | None = None
    source: str | None = None

    @staticmethod
    def of(tensor: Owner) -> Holder:
        """Return a tensor of a tide as a holder."""
        return Holder(**tensor.to_dict())


@dataclass(frozen=True)
class Shortage:
    """A moment in which memory ran out, explained."""

    target: str
    request: Request
    cause: Cause
    limit_bytes: int | None = None
    in_use_bytes: int | None = None
    peak_bytes: int | None = None
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    holders: tuple[Holder, ...] = ()
    """Largest first."""
    batch_size: int | None = None
    step: int | None = None
    """The step in which it happened, counted from 1."""
    largest_batch_size: int | None = None
    """What would have fitted, where that is known; 0 says that not even one row would."""
    planned_slowdown: float | None = None
    """What a plan that keeps the batch would cost, as a share of the time, by the planner's estimate."""
    samples: tuple[tuple[int, int], ...] = ()
    """A step's number and the bytes in use after it."""
    tide: Tide | None = None
    """The curve up to the moment."""
    notes: tuple[str, ...] = ()

    def by_kind(self) -> dict[str, int]:
        """Return the bytes that each kind held, largest first."""
        kinds: dict[str, int] = {}
        for holder in self.holders:
            kind = holder.kind or UNKNOWN_KIND
            kinds[kind] = kinds.get(kind, 0) + holder.bytes
        return dict(sorted(kinds.items(), key=lambda share: -share[1]))

    def by_layer(self) -> tuple[LayerShare, ...]:
        """Return what each layer held, largest first; empty where no layer is known."""
        if all(holder.layer is None for holder in self.holders):
            return ()
        return share_by_layer((Owner(**asdict(holder)) for holder in self.holders), UNKNOWN_KIND)

    def to_dict(self, *, top: int = 10) -> dict[str, Any]:
        """Return what a reader of the report needs as plain data, with a `schema_version`."""
        return {
            "schema_version": JSON_SCHEMA_VERSION,
            "target": self.target,
            "cause": asdict(self.cause),
            "request": asdict(self.request),
            "limit_bytes": self.limit_bytes,
            "in_use_bytes": self.in_use_bytes,
            "peak_bytes": self.peak_bytes,
            "free_bytes": self.free_bytes,
            "largest_free_bytes": self.largest_free_bytes,
            "holders": [asdict(holder) for holder in self.holders[:top]],
            "holders_in_all": sum(holder.count for holder in self.holders),
            "by_kind": self.by_kind(),
            "by_layer": [asdict(share) for share in self.by_layer()],
            "batch_size": self.batch_size,
            "largest_batch_size": self.largest_batch_size,
            "planned_slowdown": self.planned_slowdown,
            "step": self.step,
            "samples": [list(sample) for sample in self.samples],
            "tide": None if self.tide is None else self.tide.to_dict(top=top),
            "notes": list(self.notes),
        }

    def to_json(self, *, top: int = 10, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(top=top), indent=indent)


def group_alike(holders: Iterable[Holder]) -> tuple[Holder, ...]:
    """Return the holders with those put together that have the same size, kind, dtype and shape; largest first."""
    groups: dict[tuple[int, str | None, str | None, tuple[int, ...] | None], tuple[int, int]] = {}
    for holder in holders:
        key = (holder.bytes // holder.count, holder.kind, holder.dtype, holder.shape)
        held, count = groups.get(key, (0, 0))
        groups[key] = (held + holder.bytes, count + holder.count)
    alike = (
        Holder(held, count, kind=kind, dtype=dtype, shape=shape)
        for (_, kind, dtype, shape), (held, count) in groups.items()
    )
    return tuple(sorted(alike, key=lambda holder: -holder.bytes))
