"""The evidence of one allocation failure: the request, the allocator's memory at that moment, and what held it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from lowtide.oom.heap import Heap
from lowtide.simulator.bfc import round_up
from lowtide.tide.owner import Owner
from lowtide.tide.tide import Tide


@dataclass(frozen=True)
class Request:
    """The allocation that failed; fields that are not known are None."""

    bytes: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    node: str | None = None
    device: str | None = None
    allocator: str | None = None
    op: str | None = None
    source: str | None = None
    """The line of the user's program, as in "train.py:66"."""

    def with_missing(self, other: Request) -> Request:
        """Return this request with what only `other` says; of a request for other bytes, that is the line alone."""
        if self.bytes is not None and other.bytes is not None and self.bytes != round_up(other.bytes):
            other = Request(source=other.source)
        return replace(other, **{field: value for field, value in vars(self).items() if value is not None})


Exhausted = Literal["device", "process", "container", "machine", "killed"]
"""The memory of a GPU, of the process, of a container or job, of the machine; "killed" if a SIGKILL is all there is."""


@dataclass(frozen=True)
class Evidence:
    """Everything known about one allocation failure; fields that are not known are None or empty."""

    request: Request
    heap: Heap | None = None
    limit_bytes: int | None = None
    in_use_bytes: int | None = None
    peak_bytes: int | None = None
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    extension_bytes: int | None = None
    """The bytes that the allocator could still have obtained from the system within its limit."""
    holders: tuple[Owner, ...] = ()
    """The owners of the buffers in use, largest first; a log knows only groups of equal size."""
    samples: tuple[tuple[int, int], ...] = ()
    """For each step, its number and the bytes in use after it."""
    step: int | None = None
    """The step in which memory ran out, counted from 1; None if it is not known or no step had begun."""
    step_peak_bytes: int | None = None
    """The peak of a complete step, from a prediction or an earlier step."""
    request_kind: str | None = None
    """The kind of the requested buffer: "weights", "activations", ..."""
    outside_ops: bool = False
    """Whether the request is known to come from outside any op."""
    compiled: bool = False
    """Whether the request came from a program compiled by XLA, which allocates its workspace in one piece."""
    batch_size: int | None = None
    largest_batch_size: int | None = None
    """The largest batch that would have fitted; 0 if not even one row fits."""
    planned_slowdown: float | None = None
    """The estimated cost, as a share of the step time, of a plan that keeps the batch within the limit."""
    device_given_bytes: int | None = None
    """The limit that TensorFlow gave its allocator on the GPU that ran out; None if no log names it."""
    is_eager: bool = False
    """Whether the step is known to run op by op, under a gradient tape outside of any function."""
    is_recorded: bool = False
    """Whether `lowtide run` recorded the process, so that advice to do so is of no use."""
    line: int | None = None
    """The first line of the log that mentions the failure, counted from 1."""
    exhausted: Exhausted | None = None
    """Which memory ran out, if it was not that of one of TensorFlow's allocators."""
    filling: tuple[int, int] | None = None
    """How many elements the shuffle buffer had that was being filled, and of how many."""
    device_free_bytes: int | None = None
    device_total_bytes: int | None = None
    """The memory of the GPU and how much of it was free when the program began to use it."""
    tide: Tide | None = None
    """The memory of the failed step up to the failure."""
    notes: tuple[str, ...] = ()

    def with_heap(self, heap: Heap) -> Evidence:
        """Return this evidence with the figures of an allocator's dump."""
        return replace(
            self,
            heap=heap,
            limit_bytes=heap.limit_bytes,
            in_use_bytes=heap.bytes_in_use,
            peak_bytes=heap.peak_bytes,
            free_bytes=heap.free_bytes,
            largest_free_bytes=heap.largest_free_bytes,
            extension_bytes=heap.extension_bytes,
        )


def group_alike(holders: Iterable[Owner]) -> tuple[Owner, ...]:
    """Merge holders of the same size, kind, dtype and shape; largest group first."""
    groups: dict[tuple[int, str | None, str | None, tuple[int, ...] | None], tuple[int, int]] = {}
    for holder in holders:
        key = (holder.bytes // holder.count, holder.kind, holder.dtype, holder.shape)
        held, count = groups.get(key, (0, 0))
        groups[key] = (held + holder.bytes, count + holder.count)
    alike = (
        Owner(bytes=held, count=count, kind=kind, dtype=dtype, shape=shape)
        for (_, kind, dtype, shape), (held, count) in groups.items()
    )
    return tuple(sorted(alike, key=lambda holder: -holder.bytes))


def guess_batch_size(requests: Iterable[Request]) -> int | None:
    """Return the first dimension if at least two different shapes share it: most likely the batch size."""
    shapes = {request.shape for request in requests if request.shape is not None and len(request.shape) > 1}
    leading = {shape[0] for shape in shapes}
    if len(shapes) < 2 or len(leading) > 1:
        return None
    batch = leading.pop()
    return batch if batch > 1 else None
