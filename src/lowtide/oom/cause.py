"""Why memory ran out.

A recorded run knows names, kinds and every step; a log knows sizes and one request. The rules below are tried in order,
the one with the strongest evidence first. A rule that lacks a fact does not apply, and a rule that infers says "looks
like".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise

from lowtide.oom.advice import PINNED_ALLOCATORS, advise, on_gpu
from lowtide.oom.devices_at_start import SMALLEST_GPU_BYTES
from lowtide.oom.evidence import Evidence, group_alike
from lowtide.tide.owner import Owner
from lowtide.units import format_bytes, format_count

_STEP_KINDS = ("activations", "gradients", "workspace")
_LASTING_KINDS = ("weights", "optimizer")
_ARRAY_KINDS = ("constants", "input", "other")
# Ops whose output is an array from the program's text or from Python.
_CONSTANT_OPS = ("Const", "_EagerConst", "HostConst", "_HostConst")
# The op that copies a Python or NumPy value to a device; the copy is made again at each use.
_COPIED_ARRAY = "_EagerConst"
# Ops that copy arrays into a data pipeline.
_PIPELINE_OPS = ("MakeIterator", "TensorDataset", "TensorSliceDataset")
# Prefixes of ops that create a tensor from its shape alone.
_CREATING_OPS = ("Fill", "Range", "LinSpace", "Random", "Stateless", "TruncatedNormal", "ParameterizedTruncatedNormal")

_OPTIMIZERS = re.compile(
    r"(?:^|/)(?:adam|adamw|adamax|adagrad|adadelta|adafactor|nadam|sgd|rmsprop|ftrl|lion|lamb|momentum)(?:_\d+)?/",
    re.IGNORECASE,
)

# An array of NumPy below this size is not what filled the memory of the process.
_SMALL_ARRAY_BYTES = 512 << 20
# A GPU that the program itself fills still has room for a constant below this size.
_SMALL_CONSTANT_BYTES = 1 << 20
# Amounts in a log are rounded to hundredths of a GiB.
_CLEARLY_MORE = 1.02
# This many tensors of one size that belong to no step are unlikely to be parts of one object.
_MANY = 16
# A log does not say which blocks belong to a step, so the bound is higher: more than a deep network has layers.
_VERY_MANY = 100


@dataclass(frozen=True)
class OomCause:
    """Why memory ran out, as a name and a sentence, and what to do."""

    name: str
    """"batch", "fragmentation", "leak", "constant", "weights", "device", "host", "container" or "unknown"."""
    sentence: str
    advice: tuple[str, ...] = ()


def find_cause(evidence: Evidence) -> OomCause:
    """Return the first cause whose rule applies, with advice; "unknown" if none does."""
    rules: tuple[tuple[str, Callable[[Evidence], str | None]], ...] = (
        ("leak", _find_growth),
        ("device", _find_refusal),
        ("host", _find_host),
        ("container", _find_container),
        ("constant", _find_constant),
        ("leak", _find_kept_tensors),
        ("fragmentation", _find_fragmentation),
        ("weights", _find_weights),
        ("batch", _find_batch),
    )
    for name, rule in rules:
        sentence = rule(evidence)
        if sentence is not None:
            return OomCause(name, sentence, advise(name, evidence))
    room = _describe_room(evidence)
    sentence = f"out of memory: {room}" if room else "out of memory, and nothing says how much was there"
    return OomCause("unknown", sentence, advise("unknown", evidence))


def _held_bytes(evidence: Evidence, *kinds: str) -> int:
    return sum(holder.bytes for holder in evidence.holders if holder.kind in kinds)


def _are_kinds_known(evidence: Evidence) -> bool:
    """Whether at least half of the held bytes have a kind."""
    named = sum(holder.bytes for holder in evidence.holders if holder.kind is not None)
    return named > 0 and named >= sum(holder.bytes for holder in evidence.holders) / 2


def _is_eager(evidence: Evidence) -> bool:
    """Whether the request came from an eager op, not from a node of a graph."""
    return evidence.request.op is not None and evidence.request.node is None


def _requests_constant(evidence: Evidence) -> bool:
    """Whether the request was for an array from the program's text or from Python."""
    return evidence.request_kind in ("constants", "input") or evidence.request.op in (*_CONSTANT_OPS, *_PIPELINE_OPS)


def _requests_weights(evidence: Evidence) -> bool:
    """Whether the request was for a variable or an optimizer's slot variable."""
    # TensorFlow 1 puts the initializer of a variable into a scope of this name.
    return evidence.request_kind in _LASTING_KINDS or "/Initializer/" in (evidence.request.node or "")


def _find_growth(evidence: Evidence) -> str | None:
    # The first step creates the optimizer's slot variables.
    samples = evidence.samples[1:]
    if len(samples) < 3:
        return None
    # The bytes that no later step frees: steps differ, and garbage is collected at irregular times.
    kept = list(accumulate(reversed([size for _, size in samples]), min))[::-1]
    growth = kept[-1] - kept[0]
    whole = evidence.limit_bytes or kept[-1]
    # A single jump, or a rise only at the end, is one new object; a leak recurs.
    largest_jump = max(after - before for before, after in pairwise(kept))
    early = kept[len(kept) // 2] - kept[0]
    if growth < whole / 20 or largest_jump > 0.6 * growth or early < growth / 4:
        return None
    (first, _), (last, _) = samples[0], samples[-1]
    return (
        f"a leak: what stays in use grew by {format_bytes(round(growth / max(1, last - first)))} a step, "
        f"from {format_bytes(kept[0])} after step {first:,} to {format_bytes(kept[-1])} after step {last:,}"
    )


def _find_host(evidence: Evidence) -> str | None:
    held = "" if evidence.in_use_bytes is None else f" when the process held {format_bytes(evidence.in_use_bytes)}"
    asked = evidence.request.bytes
    # TensorFlow's allocators of these names call malloc, and have no limit of their own.
    filling, allocator = _describe_shuffle(evidence), evidence.request.allocator
    is_malloc = allocator in ("cpu", "mklcpu") and evidence.heap is None
    if allocator in PINNED_ALLOCATORS:
        asked_for = "" if asked is None else f": {format_bytes(asked)} was asked for"
        return f"the host's pinned memory ran out, through which data is copied to the GPU{asked_for}"
    is_small_array = allocator == "numpy" and (asked or 0) < _SMALL_ARRAY_BYTES
    if evidence.exhausted == "process" or is_small_array or (is_malloc and not _requests_constant(evidence)):
        more = "more" if asked is None else f"{format_bytes(asked)} more"
        return f"the host's memory ran out, not a device's: the process could not allocate {more}{filling}"
    if evidence.exhausted == "machine":
        return f"the machine ran out of memory{held}, and the process was killed{filling}"
    if evidence.exhausted == "killed":
        killed = "the process was killed with SIGKILL, as the kernel does then"
        return f"looks like the host ran out of memory: {killed}{filling}"
    return None


def _find_container(evidence: Evidence) -> str | None:
    if evidence.exhausted != "container":
        return None
    held, limit = evidence.in_use_bytes, evidence.limit_bytes
    filling = _describe_shuffle(evidence)
    if limit is not None:
        named = f"the limit of the container or job, {format_bytes(limit)},"
        return f"{named} was reached, and the process was killed{filling}"
    at = "" if held is None else f" when the process held {format_bytes(held)}"
    return f"the limit of the container or job was reached{at}, and the process was killed{filling}"


def _describe_shuffle(evidence: Evidence) -> str:
    """Return the end of a sentence: which shuffle buffer was being filled."""
    if evidence.filling is None:
        return ""
    filled, size = evidence.filling
    return f", while a shuffle buffer was being filled: it had {filled:,} of {format_count(size, 'element')}"


def _find_refusal(evidence: Evidence) -> str | None:
    if evidence.exhausted == "device":
        asked_for = "" if evidence.request.bytes is None else f" for {format_bytes(evidence.request.bytes)}"
        return f"the device itself had no memory left{asked_for}: most likely another process holds it"
    free, total = evidence.device_free_bytes, evidence.device_total_bytes
    if free is not None and total is not None and free < total / 2:
        return (
            f"another process holds the device: only {format_bytes(free)} of its {format_bytes(total)} "
            "were free when the program began"
        )
    given = evidence.device_given_bytes
    if total is None and given is not None and given < SMALLEST_GPU_BYTES:
        return (
            f"looks like another process holds the device: TensorFlow found room for only {format_bytes(given)} on it "
            "when the program began, unless the program itself has set that limit"
        )
    asked, rest = evidence.request.bytes, evidence.extension_bytes
    if asked is None:
        return None
    is_small_constant = evidence.request.op in _CONSTANT_OPS and asked < _SMALL_CONSTANT_BYTES
    if is_small_constant and evidence.limit_bytes is None and on_gpu(evidence.request):
        return f"looks like another process holds the device: not even {format_bytes(asked)} for a constant found room"
    if rest is None or asked * _CLEARLY_MORE > rest:
        return None
    return (
        f"the device itself had no more: {format_bytes(asked)} would still have been within the allocator's limit, "
        "so something else holds its memory"
    )


def _find_constant(evidence: Evidence) -> str | None:
    asked, whole, free = evidence.request.bytes, evidence.limit_bytes, evidence.largest_free_bytes
    copied = ": a NumPy array, which is copied in every step that uses it" * (evidence.request.op == _COPIED_ARRAY)
    if evidence.request.op in (_COPIED_ARRAY, *_PIPELINE_OPS) and asked is None:
        what = "a NumPy array, which is copied in every step that uses it," if copied else "the data of a pipeline"
        return f"looks like one oversized array: {what} found no room on the device"
    if _requests_constant(evidence) and asked is not None and (free is None or asked > free):
        if whole is None:
            return f"looks like one oversized array: {format_bytes(asked)} at once for a constant or an input{copied}"
        if asked >= whole / (10 if copied else 4):
            return f"one array of {format_bytes(asked)} is asked for at once, {_share(asked, whole)}{copied}"
    if evidence.outside_ops and asked is not None and asked >= (whole or 0) / 4:
        return f"looks like one oversized array: no op was running, and {format_bytes(asked)} was asked for at once"
    creating = _is_eager(evidence) and (evidence.request.op or "").startswith(_CREATING_OPS)
    if creating and asked is not None and whole is not None and asked > whole:
        return f"one tensor alone is larger than all there is: {format_bytes(asked)} of {format_bytes(whole)}"
    return _find_held_constant(evidence)


def _find_held_constant(evidence: Evidence) -> str | None:
    whole = evidence.limit_bytes or evidence.in_use_bytes
    for holder in evidence.holders:
        each = holder.bytes // holder.count
        if whole is None or each < whole / 2:
            continue
        if (holder.kind in _ARRAY_KINDS or holder.op in _CONSTANT_OPS) and not _is_batch(holder, evidence):
            what = {"constants": "constant", "input": "input array"}.get(holder.kind or "", "array")
            named = f" ({holder.name})" if holder.name else ""
            return f"one {what}{named} of {format_bytes(each)} is held, {_share(each, whole)}"
        if holder.kind is None and _requests_constant(evidence):
            return (
                f"looks like whole arrays on the device: one block of {format_bytes(each)} is held, "
                f"{_share(each, whole)}, and another array was asked for"
            )
    return None


def _is_batch(holder: Owner, evidence: Evidence) -> bool:
    """Whether a holder is one batch of input, so that its size depends on the batch size."""
    return holder.kind == "input" and (holder.shape or ())[:1] == (evidence.batch_size,)


def _find_kept_tensors(evidence: Evidence) -> str | None:
    whole = evidence.limit_bytes or evidence.in_use_bytes
    if whole is None:
        return None
    for group in group_alike(evidence.holders):
        each, held = format_bytes(group.bytes // group.count), format_bytes(group.bytes)
        share = _share(group.bytes, whole)
        if group.kind == "other" and group.count >= _MANY and group.bytes >= whole / 4:
            return (
                f"looks like a leak: {group.count:,} tensors of {each} that belong to no step and no variable "
                f"hold {held}, {share}"
            )
        if group.kind is None and _is_eager(evidence) and group.count >= _VERY_MANY and group.bytes >= whole / 2:
            return f"looks like a leak: {group.count:,} blocks of {each} hold {held}, {share}, while ops run one by one"
    return None


def _find_fragmentation(evidence: Evidence) -> str | None:
    asked, free, largest = evidence.request.bytes, evidence.free_bytes, evidence.largest_free_bytes
    if asked is None or free is None:
        return None
    if largest is None and evidence.limit_bytes is not None and asked * _CLEARLY_MORE <= free:
        return (
            f"looks like fragmentation: {format_bytes(free)} were free, but {format_bytes(asked)} "
            "could not be had in one piece"
        )
    if largest is None or not largest < asked <= free:
        return None
    limit, in_step = evidence.limit_bytes, _held_bytes(evidence, *_STEP_KINDS)
    if _has_no_complete_step(evidence):
        return None
    if limit is not None and (
        (evidence.step_peak_bytes or 0) > limit or (evidence.step == 1 and in_step + asked > limit / 2)
    ):
        # Nothing shows that a complete step would fit if the free bytes were in one piece.
        return None
    return (
        f"fragmentation: {format_bytes(free)} were free, but in pieces, the largest of {format_bytes(largest)}, "
        f"and {format_bytes(asked)} was asked for in one piece"
    )


def _has_no_complete_step(evidence: Evidence) -> bool:
    """Whether an eager step ran out before a complete step showed that it fits: the first creates variables.

    A model may also be called outside of any step.
    """
    is_of_step = evidence.request_kind in _STEP_KINDS or evidence.step is None
    return evidence.is_eager and is_of_step and (evidence.step or 1) <= 2


def _find_weights(evidence: Evidence) -> str | None:
    whole = evidence.limit_bytes or evidence.in_use_bytes
    lasting = _held_bytes(evidence, *_LASTING_KINDS)
    if _are_kinds_known(evidence) and whole is not None:
        if lasting >= 0.8 * whole or (_requests_weights(evidence) and lasting > _held_bytes(evidence, *_STEP_KINDS)):
            held = format_bytes(lasting)
            return f"the model alone is too large: weights and optimizer hold {held}, {_share(lasting, whole)}"
        return _find_weight_gradients(evidence, lasting, whole)
    if _requests_weights(evidence):
        return "looks like the model alone is too large: it ran out while variables were being created"
    return None


def _find_weight_gradients(evidence: Evidence, lasting: int, whole: int) -> str | None:
    """Return a sentence if weights, optimizer and gradients of weights, whatever the batch, leave too little."""
    shapes = {holder.shape for holder in evidence.holders if holder.kind in _LASTING_KINDS and holder.shape}
    # A gradient of such a shape may belong to activations.
    shapes = {shape for shape in shapes if shape[0] != evidence.batch_size}
    gradients = sum(each.bytes for each in evidence.holders if each.kind == "gradients" and each.shape in shapes)
    asked = (evidence.request.bytes or 0) if evidence.request.shape in shapes else 0
    held = lasting + gradients
    if evidence.largest_batch_size or gradients == 0 or held + asked < 0.8 * whole:
        return None
    more = f", and {format_bytes(asked)} more was asked for" if asked else ""
    return (
        f"a smaller batch would not help: weights, optimizer and gradients of weights hold {format_bytes(held)}, "
        f"{_share(held, whole)}{more}"
    )


def _find_batch(evidence: Evidence) -> str | None:
    if not _are_kinds_known(evidence):
        return _infer_batch(evidence)
    whole = evidence.limit_bytes or evidence.in_use_bytes
    in_step, asked = _held_bytes(evidence, *_STEP_KINDS, "input"), evidence.request.bytes or 0
    if whole is None:
        return None
    # An eager step may run out at its first large tensor.
    others = sum(holder.bytes for holder in evidence.holders) - in_step
    is_small = in_step + asked < (others if _has_no_complete_step(evidence) else whole / 2)
    if is_small and (evidence.step_peak_bytes or 0) <= whole:
        return None
    at = "" if evidence.batch_size is None else f" at a batch of {evidence.batch_size:,}"
    more = f", and {format_bytes(asked)} more was asked for" if asked else ""
    if evidence.largest_free_bytes is not None and evidence.largest_free_bytes < asked <= (evidence.free_bytes or 0):
        more += f", where {format_bytes(evidence.largest_free_bytes)} was free in one piece"
    return (
        f"the step is too large{at}: activations, gradients, workspace and input hold {format_bytes(in_step)}, "
        f"{_share(in_step, whole)}{more}"
    )


def _infer_batch(evidence: Evidence) -> str | None:
    """Infer from the request alone that the step is too large."""
    request, limit = evidence.request, evidence.limit_bytes
    in_step = evidence.compiled or request.node is not None
    if (in_step or request.op is not None) and limit is not None and (request.bytes or 0) > limit:
        asked = format_bytes(request.bytes or 0)
        return f"one request is larger than all there is: {asked} where the limit is {format_bytes(limit)}"
    # The optimizer's workspace does not depend on the batch, nor does a tensor of one row.
    one_row = request.shape is not None and (len(request.shape) < 2 or request.shape[0] < 2)
    if not in_step or one_row or _OPTIMIZERS.search(request.node or ""):
        return None
    room = _describe_room(evidence)
    return f"looks like the step is too large: {room}" if room else "looks like the step is too large"


def _describe_room(evidence: Evidence) -> str:
    """Return the requested and the available bytes, in words."""
    asked, largest, limit = evidence.request.bytes, evidence.largest_free_bytes, evidence.limit_bytes
    parts = []
    if asked is not None:
        parts.append(f"{format_bytes(asked)} was asked for")
    if largest is not None:
        parts.append(f"no more than {format_bytes(largest)} could be had in one piece")
    elif evidence.free_bytes is not None:
        parts.append(f"{format_bytes(evidence.free_bytes)} was free")
    text = " and ".join(parts)
    if not text or limit is None:
        return text
    block = max((holder.bytes // holder.count for holder in evidence.holders), default=0)
    alone = f"; one block alone holds {format_bytes(block)}" if block >= limit / 2 else ""
    return f"{text}, of {format_bytes(limit)} in all{alone}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%} of what there is"
