"""Which eager op made an allocation, and the names of eager ops.

A graph gives each node a name; an eager op has none, and its allocations carry the type of the op. The recorder puts a
span around each eager op, so an allocation belongs to the op whose span contains it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from lowtide.sources.profiles.xplane import AllocationRecord, EagerSpan
from lowtide.tide.owner import Owner

# A span that contains a moment may begin before others that ended earlier: a function that calls Python.
_MOST_NESTED = 64


def find_eager_ops(events: AllocationRecord, spans: Sequence[EagerSpan], ops: Sequence[Owner]) -> list[Owner | None]:
    """Return the eager op that made each allocation; None for frees, and for allocations outside of eager ops.

    An op may use other threads: an allocation in a thread that runs no eager op belongs to the op that runs in another
    thread, if there is exactly one.
    """
    found: list[Owner | None] = [None] * len(events)
    if not spans:
        return found
    threads: dict[int, list[EagerSpan]] = {}
    for span in sorted(spans, key=lambda span: span.begin_ps):
        threads.setdefault(span.thread, []).append(span)
    begins = {thread: [span.begin_ps for span in rows] for thread, rows in threads.items()}
    columns = zip(events.is_allocation.tolist(), events.thread.tolist(), events.time_ps.tolist(), strict=True)
    for event, (is_allocation, thread, time_ps) in enumerate(columns):
        if not is_allocation:
            continue
        among = [thread] if thread in threads else list(threads)
        running = [_span_at(threads[each], begins[each], time_ps) for each in among]
        numbers = [span.number for span in running if span is not None and span.number < len(ops)]
        if len(numbers) == 1:
            found[event] = ops[numbers[0]]
    return found


def _span_at(spans: Sequence[EagerSpan], begins: Sequence[int], time_ps: int) -> EagerSpan | None:
    """Return the innermost span of one thread that contains a moment."""
    after = bisect_right(begins, time_ps)
    for position in range(after - 1, max(after - 1 - _MOST_NESTED, -1), -1):
        if time_ps <= spans[position].end_ps:
            return spans[position]
    return None


def name_operations(operations: Sequence[str | None], made_by: Sequence[Owner | None]) -> list[str | None]:
    """Return the names of the ops that allocated, with the layer before the type of an eager op, as graphs have it."""
    return [
        operation if owner is None or operation is None or is_function(owner) else _name(operation, owner)
        for operation, owner in zip(operations, made_by, strict=True)
    ]


def is_function(owner: Owner) -> bool:
    """Whether an eager op is the call of a traced function, whose nodes have names of their own."""
    return (owner.op or "").startswith("__")


def _name(operation: str, owner: Owner) -> str:
    scopes = ("gradient_tape",) if owner.kind == "gradients" else ()
    return "/".join((*scopes, *((owner.layer,) if owner.layer else ()), operation))
