"""What holds the memory at the peak of a step, by the reasons that a remedy could have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from lowtide.tide.explain import alive_at, breakdown_at, owners_of
from lowtide.tide.kinds import SLACK
from lowtide.tide.owner import Owner
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes

# What a step makes in its passes, and what a smaller batch makes smaller.
OF_THE_PASSES = ("activations", "gradients", "workspace")
# What holds this share of the peak is listed, and of layers this many.
_NOTABLE, _MOST_LAYERS = 0.1, 5
# An activation is cheap if its share of the step's time is at most this much of its share of the peak.
_CHEAP = 0.1
_BESIDE_THE_PASSES = ("weights", "optimizer", "constants", "input")
_HALF_TYPES = ("bfloat16", "float16")


@dataclass(frozen=True)
class PeakHolder:
    """What holds a part of the peak."""

    kind: str
    """layer, cheap, float32, slack, or a kind of memory."""
    name: str
    bytes: int
    detail: str


def dominant_layers(tide: Tide, smaller: Tide | None = None) -> list[PeakHolder]:
    """Return the layers whose activations, gradients and workspace hold most of the peak.

    `smaller` is the same step with a smaller batch, for what the layers would hold at its peak.
    """
    small = {} if smaller is None else {share.layer: share.by_kind for share in smaller.by_layer()}
    found = []
    for share in tide.by_layer():
        held = _of_the_passes(share.by_kind)
        if share.layer is None or held < _NOTABLE * tide.peak_bytes:
            continue
        parts = sorted(((share.by_kind.get(kind, 0), kind) for kind in OF_THE_PASSES), reverse=True)
        detail = ", ".join(f"{kind} {format_bytes(size)}" for size, kind in parts if size)
        if smaller is not None:
            detail += f"; {format_bytes(_of_the_passes(small.get(share.layer, {})))} at batch {smaller.batch_size:,}"
        found.append(PeakHolder("layer", share.layer, held, detail))
    return sorted(found, key=lambda holder: -holder.bytes)[:_MOST_LAYERS]


def _of_the_passes(by_kind: Mapping[str, int]) -> int:
    return sum(by_kind.get(kind, 0) for kind in OF_THE_PASSES)


def at_the_peak(tide: Tide) -> tuple[Owner, ...]:
    """Return the owners of all buffers that are alive at the peak, largest first."""
    return owners_of(tide, alive_at(tide, tide.peak_event))


def cheap_activations(tide: Tide, cost_us: Mapping[str, float]) -> tuple[list[Owner], float]:
    """Return the activations at the peak that would cost little to compute again, and their share of the step's time.

    `cost_us` has the time of each node by its name. Activations that no time is known for do not count.
    """
    total_us = max(sum(cost_us.values()), 1e-9)
    found, time_us = [], 0.0
    for owner in at_the_peak(tide):
        own_us = cost_us.get((owner.name or "").rpartition(":")[0])
        if owner.kind != "activations" or own_us is None:
            continue
        if own_us / total_us <= _CHEAP * owner.bytes / max(tide.peak_bytes, 1):
            found.append(owner)
            time_us += own_us
    return found, time_us / total_us


def cheap_holder(tide: Tide, cost_us: Mapping[str, float]) -> Iterator[PeakHolder]:
    """Yield what activations hold that would cost little to compute again."""
    cheap, share = cheap_activations(tide, cost_us)
    held = sum(owner.bytes for owner in cheap)
    if held >= _NOTABLE * tide.peak_bytes:
        detail = f"{_largest(cheap, 'op')}; computing all of them again takes {share:.1%} of the step's time"
        yield PeakHolder("cheap", "activations of cheap ops", held, detail)


def float32_of(tide: Tide, layers: Collection[str]) -> list[Owner]:
    """Return the float32 tensors at the peak that the passes made in some layers, largest first."""
    return [
        owner
        for owner in at_the_peak(tide)
        if owner.layer in layers and owner.dtype == "float32" and owner.kind in OF_THE_PASSES
    ]


def float32_holder(tide: Tide, half_layers: Collection[str]) -> Iterator[PeakHolder]:
    """Yield what layers that compute in half precision hold in float32: normalizations, softmaxes and casts."""
    owners = float32_of(tide, half_layers)
    held = sum(owner.bytes for owner in owners)
    if held >= _NOTABLE * tide.peak_bytes:
        yield PeakHolder("float32", "float32 in half-precision layers", held, _largest(owners, "layer"))


def wide_slots(tide: Tide) -> list[Owner]:
    """Return the optimizer's slots in float32 whose variables are in half precision."""
    held = at_the_peak(tide)
    half = {(owner.layer, owner.shape) for owner in held if owner.kind == "weights" and owner.dtype in _HALF_TYPES}
    return [
        owner
        for owner in held
        if owner.kind == "optimizer" and owner.dtype == "float32" and (owner.layer, owner.shape) in half
    ]


def kind_holders(tide: Tide) -> Iterator[PeakHolder]:
    """Yield weights, state, constants, workspace and the allocator's slack, where they hold much of the peak."""
    shares = tide.breakdown()
    for kind in _BESIDE_THE_PASSES:
        if shares[kind] >= _NOTABLE * tide.peak_bytes:
            owners = [owner for owner in at_the_peak(tide) if owner.kind == kind]
            yield PeakHolder(kind, kind, shares[kind], _largest(owners, "layer"))
    if shares["workspace"] >= _NOTABLE * tide.peak_bytes:
        owners = [owner for owner in at_the_peak(tide) if owner.kind == "workspace"]
        yield PeakHolder("workspace", "workspace of kernels", shares["workspace"], _largest(owners, "op"))
    if shares[SLACK] >= _NOTABLE * tide.peak_bytes:
        wasted = sorted(at_the_peak(tide), key=lambda owner: (owner.requested_bytes or 0) - owner.bytes)[:1]
        detail = "".join(
            f"chunks that the allocator does not split; {format_bytes(owner.bytes)} are given for"
            f" {format_bytes(owner.requested_bytes or 0)} of {owner.layer or owner.name}"
            for owner in wasted
        )
        yield PeakHolder(SLACK, "slack of the allocator", shares[SLACK], detail)


def state_bytes(tide: Tide) -> int:
    """Return the size of the optimizer's state, before the step: an update may put a slot into another buffer."""
    return breakdown_at(tide, 0)["optimizer"]


def _largest(owners: list[Owner], field: str, most: int = 3) -> str:
    """Return the ops or layers that hold most, with their bytes: "Relu 4 MiB, Mul 1 MiB and 2 more"."""
    sizes: dict[str, int] = {}
    for owner in owners:
        name = getattr(owner, field) or owner.op or "unknown"
        sizes[name] = sizes.get(name, 0) + owner.bytes
    order = sorted(sizes, key=lambda name: -sizes[name])
    text = ", ".join(f"{name} {format_bytes(sizes[name])}" for name in order[:most])
    return text + (f" and {len(order) - most:,} more" if len(order) > most else "")
