"""What half precision would save, and what a mixed policy leaves in float32."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import keras

from lowtide.errors import LowtideError
from lowtide.planning.remedies.at_peak import float32_of
from lowtide.planning.remedies.remedy import Remedy, lowered, name_some
from lowtide.tf.plan.precision import restore_precision, set_precision
from lowtide.tf.remedies.subject import Subject
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes, format_count

_MIXED = ("mixed_bfloat16", "mixed_float16")
# Decimal digits of the significand: 8 and 11 bits.
_DIGITS = {"mixed_bfloat16": "2 to 3", "mixed_float16": "3 to 4"}


def half_precision_layers(model: keras.Model | None) -> frozenset[str]:
    """Return the layers that compute in half precision."""
    layers = [] if model is None else model._flatten_layers()
    return frozenset(layer.name for layer in layers if layer.dtype_policy.name in _MIXED)


def try_half_precision(subject: Subject) -> Iterator[Remedy]:
    """Yield what a mixed policy would save, for the layers that compute in float32."""
    model = subject.model
    if model is None:
        return
    used = Counter(layer.dtype_policy.name for layer in model._flatten_layers() if layer.dtype_policy.name in _MIXED)
    policy = used.most_common(1)[0][0] if used else _MIXED[0]
    try:
        before = set_precision(model, policy)
    except LowtideError:
        # No layer is left in float32.
        return
    changed = [layer.name for layer, _ in before.policies if layer is not model]
    try:
        if not changed:
            return
        with subject.trying(policy):
            after = subject.predict_changed(f"trying {policy}")
            yield from _compare(subject, after, policy, changed, is_mixed=bool(used))
    finally:
        restore_precision(model, before)


def _compare(subject: Subject, after: Tide, policy: str, layers: list[str], *, is_mixed: bool) -> Iterator[Remedy]:
    if subject.notes_loss(after, policy):
        return
    if is_mixed:
        kept = format_count(len(layers), "layer keeps", "layers keep")
        held = format_bytes(sum(owner.bytes for owner in float32_of(subject.tide, frozenset(layers))))
        problem = f"{kept} float32 in a model that computes in {policy}, {held} at the peak: {name_some(layers)}"
        advice = f"leave dtype= out, or give dtype={policy!r}"
    else:
        problem = "activations and their gradients are float32"
        advice = f"call keras.config.set_dtype_policy({policy!r}) before the model is built; variables stay float32"
    changes = f"{'these layers compute' if is_mixed else 'layers compute'} with {_DIGITS[policy]} digits"
    yield lowered(subject.tide, after, "precision", problem, advice, changes=changes)
