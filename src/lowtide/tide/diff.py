"""What changed between two tides: which kinds, layers and tensors make the peak higher or lower."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, SupportsIndex

from lowtide.errors import LowtideError
from lowtide.tide import notebook
from lowtide.tide.explain import ProgramPoint
from lowtide.tide.kinds import KINDS, SLACK
from lowtide.tide.matching import LayerPair, match_layers, match_tensors, same_node
from lowtide.tide.owner import Owner
from lowtide.tide.tide import Tide
from lowtide.units import GrowthLimit, format_bytes, format_growth, parse_growth

JSON_SCHEMA_VERSION = 1

_NOTEBOOK_LAYERS = 10

_WORDS = {
    "grown": ("grew", "grew"),
    "added": ("is new", "are new"),
    "shrunk": ("shrank", "shrank"),
    "removed": ("is gone", "are gone"),
}


@dataclass(frozen=True)
class Change:
    """An amount of bytes before and after."""

    before_bytes: int
    after_bytes: int

    @property
    def growth_bytes(self) -> int:
        """The difference in bytes; negative if there are fewer."""
        return self.after_bytes - self.before_bytes

    @property
    def growth(self) -> float | None:
        """The growth as a share of the bytes before; None for growth from zero."""
        if self.before_bytes == 0:
            return None if self.after_bytes else 0.0
        return self.growth_bytes / self.before_bytes

    def __str__(self) -> str:
        return f"{format_bytes(self.before_bytes)} -> {format_bytes(self.after_bytes)}, {format_growth(self.growth)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain data."""
        return asdict(self) | {"growth_bytes": self.growth_bytes}


@dataclass(frozen=True)
class KindChange(Change):
    """The bytes that one kind requested at the peak; for "slack", the rest of the peak."""

    kind: str


@dataclass(frozen=True)
class TensorChange:
    """A tensor that is alive at the peak of both tides, or of one of them."""

    before: Owner | None
    after: Owner | None

    @property
    def tensor(self) -> Owner:
        """The tensor after, or before if it was removed."""
        tensor = self.after or self.before
        assert tensor is not None
        return tensor

    @property
    def growth_bytes(self) -> int:
        """The difference in requested bytes."""
        before, after = (0 if side is None else side.requested_bytes or 0 for side in (self.before, self.after))
        return after - before

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain data."""
        before, after = (None if side is None else side.to_dict() for side in (self.before, self.after))
        return {"before": before, "after": after, "growth_bytes": self.growth_bytes}


@dataclass(frozen=True)
class LayerChange(Change):
    """The bytes that one layer requested at the peak of each tide; `layer` is None for tensors without a layer.

    A layer of both programs is grown, shrunk or the same, even if it has tensors at one peak only.
    """

    layer: str | None
    was: str | None
    """Its name before, if it is different."""
    status: str
    """added, removed, grown, shrunk or same"""
    tensors: tuple[TensorChange, ...]
    """The tensors that changed, largest change first; they add up to the growth."""

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain data."""
        return super().to_dict() | {"tensors": [change.to_dict() for change in self.tensors]}


@dataclass(frozen=True, eq=False)
class Difference:
    """The difference between two tides, each at its own peak.

    Bytes are requested bytes, so that a layer does not change because another one did; what the allocator gave beyond
    them is the slack. `by_kind` adds up to the growth of the peak, and so do `by_layer` and `slack`.
    """

    before: Tide
    after: Tide
    peak: Change
    safe: Change
    by_kind: tuple[KindChange, ...]
    by_layer: tuple[LayerChange, ...]
    """All layers, largest change first."""
    slack: Change
    notes: tuple[str, ...]
    """Caveats of the comparison."""

    @property
    def growth_bytes(self) -> int:
        """The growth of the peak in bytes."""
        return self.peak.growth_bytes

    @property
    def growth(self) -> float | None:
        """The growth of the peak as a share; None for growth from zero."""
        return self.peak.growth

    @property
    def changed(self) -> tuple[LayerChange, ...]:
        """The layers that changed."""
        return tuple(change for change in self.by_layer if change.status != "same")

    @property
    def headline(self) -> str:
        """One line: the peaks, the growth, and how many layers grew, shrank, were added or removed."""
        return f"{self.peak}: {self.layers_line}"

    @property
    def layers_line(self) -> str:
        """How many layers grew, shrank, were added or removed."""
        statuses = [change.status for change in self.by_layer if change.layer is not None]
        parts: list[str] = []
        for status, (one, several) in _WORDS.items():
            count = statuses.count(status)
            if count:
                noun = "" if parts else (" layer" if count == 1 else " layers")
                parts.append(f"{count:,}{noun} {one if count == 1 else several}")
        return ", ".join(parts) or "no layer changed"

    def exceeds(self, max_growth: str | float | SupportsIndex | GrowthLimit) -> bool:
        """Whether the peak grew by more than `max_growth`: "5%" or 0.05 is a share, "200MiB" or 1024 are bytes."""
        return self.growth_bytes > parse_growth(max_growth).above(self.peak.before_bytes)

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as plain data, with a `schema_version`."""
        return {
            "schema_version": JSON_SCHEMA_VERSION,
            "headline": self.headline,
            "before": _side(self.before),
            "after": _side(self.after),
            "growth_bytes": self.growth_bytes,
            "growth": self.growth,
            "safe_growth_bytes": self.safe.growth_bytes,
            "safe_growth": self.safe.growth,
            "by_kind": [change.to_dict() for change in self.by_kind],
            "by_layer": [change.to_dict() for change in self.by_layer],
            "slack": self.slack.to_dict(),
            "notes": list(self.notes),
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)

    def __repr__(self) -> str:
        return f"<Difference: {self.headline}>"

    def _repr_html_(self) -> str:
        shown, rest = self.changed[:_NOTEBOOK_LAYERS], self.changed[_NOTEBOOK_LAYERS:]
        rows = [(each.layer or "(no layer)", each.status, each.before_bytes, each.after_bytes) for each in shown]
        if rest:
            before, after = sum(each.before_bytes for each in rest), sum(each.after_bytes for each in rest)
            rows.append((f"{len(rest):,} more", "", before, after))
        rows.append((SLACK, "", self.slack.before_bytes, self.slack.after_bytes))
        return notebook.render_changes(self.headline, rows, self.notes)


def diff(before: Tide, after: Tide) -> Difference:
    """Return which kinds, layers and tensors make the peak of `after` higher or lower than that of `before`."""
    sides: tuple[object, ...] = (before, after)
    for side in sides:
        if not isinstance(side, Tide):
            cure = "give what lt.predict or lt.Tide.load returned"
            raise LowtideError("a difference is between two tides", given=type(side).__name__, cure=cure)
    layers = match_layers(_layers(before), _layers(after))
    by_kind = _by_kind(before, after)
    slack = next(change for change in by_kind if change.kind == SLACK)
    return Difference(
        before,
        after,
        peak=Change(before.peak_bytes, after.peak_bytes),
        safe=Change(before.safe_bytes, after.safe_bytes),
        by_kind=by_kind,
        by_layer=_by_layer(before, after, layers),
        slack=Change(slack.before_bytes, slack.after_bytes),
        notes=tuple(_notes(before, after, layers)),
    )


def _side(tide: Tide) -> dict[str, Any]:
    fields = ("target", "method", "batch_size", "peak_bytes", "safe_bytes")
    return {field: getattr(tide, field) for field in fields} | {"peak_place": str(tide.peak_place)}


def _layers(tide: Tide) -> list[str]:
    """Return the layers of the whole step, not only those with tensors at the peak."""
    return list(dict.fromkeys(layer for layer in tide.buffers.layer if layer is not None))


def _by_kind(before: Tide, after: Tide) -> tuple[KindChange, ...]:
    old, new = _requested(before), _requested(after)
    changes = [KindChange(old[kind], new[kind], kind) for kind in (*KINDS, SLACK)]
    return tuple(sorted(changes, key=lambda change: -abs(change.growth_bytes)))


def _requested(tide: Tide) -> dict[str, int]:
    shares = tide.breakdown()
    # Computed from the peak, not from the buffers, so that the kinds add up to it even if a recording is incomplete.
    shares[SLACK] = tide.peak_bytes - sum(size for kind, size in shares.items() if kind != SLACK)
    return shares


def _by_layer(before: Tide, after: Tide, layers: list[LayerPair]) -> tuple[LayerChange, ...]:
    old, new = _held_by_layer(before), _held_by_layer(after)
    changes = [_layer_change(None, "same", old.get(None, []), new.get(None, []))]
    for was, name in layers:
        held = old.get(was, []) if was else [], new.get(name, []) if name else []
        status = "added" if was is None else "removed" if name is None else "same"
        changes.append(_layer_change(name or was, status, *held, was=was if name and was != name else None))
    return tuple(sorted(changes, key=lambda change: -abs(change.growth_bytes)))


def _held_by_layer(tide: Tide) -> dict[str | None, list[Owner]]:
    held: dict[str | None, list[Owner]] = {}
    for tensor in tide.top(tide.alive_at_peak):
        held.setdefault(tensor.layer, []).append(tensor)
    return held


def _layer_change(
    layer: str | None, status: str, old: list[Owner], new: list[Owner], was: str | None = None
) -> LayerChange:
    before_bytes, after_bytes = (sum(tensor.requested_bytes or 0 for tensor in side) for side in (old, new))
    if status == "same" and before_bytes != after_bytes:
        status = "grown" if after_bytes > before_bytes else "shrunk"
    pairs = [TensorChange(*pair) for pair in match_tensors(old, new)]
    tensors = sorted((pair for pair in pairs if pair.growth_bytes), key=lambda pair: -abs(pair.growth_bytes))
    return LayerChange(before_bytes, after_bytes, layer, was, status, tuple(tensors))


def _notes(before: Tide, after: Tide, layers: list[LayerPair]) -> list[str]:
    notes = []
    if before.target != after.target:
        notes.append(f"the targets differ: {before.target} before, {after.target} after")
    if before.batch_size != after.batch_size:
        sizes = ["not known" if tide.batch_size is None else f"{tide.batch_size:,}" for tide in (before, after)]
        notes.append(f"the batch sizes differ: {sizes[0]} before, {sizes[1]} after; compare tides of one batch size")
    if before.method != after.method:
        notes.append(
            f"found by different methods: {before.method} before, {after.method} after; "
            "part of the difference is between the methods"
        )
    old, new = before.peak_place, after.peak_place
    if not _same_point(old, new, layers):
        notes.append(
            f"the peak has moved: it was at {old}, it is at {new}; "
            "layers may hold more or less because it is another moment of the step"
        )
    return notes


def _same_point(old: ProgramPoint, new: ProgramPoint, layers: list[LayerPair]) -> bool:
    if (old.backward, old.op) != (new.backward, new.op):
        return False
    if old.layer is not None or new.layer is not None:
        return (old.layer, new.layer) in layers
    return old.node == new.node or (old.node is not None and new.node is not None and same_node(old.node, new.node))
