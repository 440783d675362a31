"""Tensor lists, in which loops keep tensors for their gradients.

A list is a variant with references to its elements' buffers. Changing a list that has another reference copies the
references, never the elements.
"""

from __future__ import annotations

from typing import Any

from lowtide.program.dtypes import VARIANT
from lowtide.simulator.allocation_stream import BufferId
from lowtide.simulator.buffer_references import BufferReferences

_VARIANT_BYTES = 64


def start_list(references: BufferReferences, node: int, buffers: Any) -> None:
    """Run one list op: allocate its outputs and move references."""
    op = references.work.graph.ops[node]
    _OPS.get(op, _plain)(references, node, buffers)


def _plain(references: BufferReferences, node: int, buffers: Any) -> None:
    for output in references.work.outputs[node]:
        buffers[output] = references.allocate(references.work.sizes[output], output, node)


def _new(references: BufferReferences, node: int, buffers: Any) -> None:
    output = references.work.outputs[node][0]
    buffers[output] = _make(references, node, output, [])


def _make(references: BufferReferences, node: int, output: int, elements: list[BufferId | None]) -> BufferId:
    buffer = references.allocate(_VARIANT_BYTES, output, node)
    references.contents[buffer] = elements
    return buffer


def _changed(references: BufferReferences, node: int, source: int, output: int, buffers: Any) -> list[BufferId | None]:
    """Return the elements to change: those of the input if it has no other reference, else a copy."""
    buffer = buffers[source]
    elements = references.contents.setdefault(buffer, [])
    if references.counts[buffer] == 1:
        buffers[output] = references.share(buffer)
        return elements
    copy = list(elements)
    for element in copy:
        if element is not None:
            references.share(element)
    buffers[output] = _make(references, node, output, copy)
    return copy


def _push(references: BufferReferences, node: int, buffers: Any) -> None:
    work = references.work
    elements = _changed(references, node, work.inputs[node][0], work.outputs[node][0], buffers)
    elements.append(references.share(buffers[work.inputs[node][1]]))


def _pop(references: BufferReferences, node: int, buffers: Any) -> None:
    work = references.work
    rest, value = work.outputs[node]
    elements = _changed(references, node, work.inputs[node][0], rest, buffers)
    last = elements.pop() if elements else None
    # The reference moves from the list to the reader.
    buffers[value] = last if last is not None else references.allocate(work.sizes[value], value, node)


def _set(references: BufferReferences, node: int, buffers: Any) -> None:
    work = references.work
    elements = _changed(references, node, work.inputs[node][0], work.outputs[node][0], buffers)
    # Indices are not simulated: each write appends, as loops do.
    elements.append(references.share(buffers[work.inputs[node][2]]))


def _get(references: BufferReferences, node: int, buffers: Any) -> None:
    work = references.work
    output = work.outputs[node][0]
    source = buffers[work.inputs[node][0]]
    elements = [element for element in references.contents.get(source, ()) if element is not None]
    if elements:
        # Indices are not simulated: each read takes the next element, because a loop reads each one once and often
        # keeps it for its gradient, longer than the list exists.
        position = references.reads[source] = references.reads.get(source, -1) + 1
        buffers[output] = references.share(elements[position % len(elements)])
    else:
        buffers[output] = references.allocate(work.sizes[output], output, node)


def _from_tensor(references: BufferReferences, node: int, buffers: Any) -> None:
    """Make each row a separate element."""
    work = references.work
    source, output = work.inputs[node][0], work.outputs[node][0]
    rows = (work.graph.shapes[source] or (1,))[0]
    row_bytes = work.sizes[source] // max(rows, 1)
    elements: list[BufferId | None] = [references.allocate(row_bytes, output, node) for _ in range(max(rows, 0))]
    buffers[output] = _make(references, node, output, elements)


def _zeros(references: BufferReferences, node: int, buffers: Any) -> None:
    """Make a list of zeros with as many elements as the input."""
    work = references.work
    output = work.outputs[node][0]
    elements: list[BufferId | None] = [
        None if element is None else references.allocate(references.stream.sizes[element], output, node)
        for element in references.contents.get(buffers[work.inputs[node][0]], [])
    ]
    buffers[output] = _make(references, node, output, elements)


def _sum(references: BufferReferences, node: int, buffers: Any) -> None:
    """Add lists: a new element where more than one list has one, else the element of the longest list."""
    work = references.work
    output = work.outputs[node][0]
    lists = [references.contents.get(buffers[tensor], []) for tensor in work.inputs[node]]
    lists.sort(key=len)
    *others, fullest = lists
    added = len(others[-1]) if others else 0
    elements: list[BufferId | None] = [
        element
        if element is None
        else references.allocate(references.stream.sizes[element], output, node)
        if position < added
        else references.share(element)
        for position, element in enumerate(fullest)
    ]
    buffers[output] = _make(references, node, output, elements)


def _resize(references: BufferReferences, node: int, buffers: Any) -> None:
    work = references.work
    if work.graph.dtypes[work.inputs[node][0]] == VARIANT:
        _changed(references, node, work.inputs[node][0], work.outputs[node][0], buffers)
    else:
        _plain(references, node, buffers)


def _wrap(references: BufferReferences, node: int, buffers: Any) -> None:
    """Wrap in an optional the tensors that a branch saves for its gradient."""
    work = references.work
    output = work.outputs[node][0]
    buffers[output] = _make(
        references, node, output, [references.share(buffers[tensor]) for tensor in work.inputs[node]]
    )


def _unwrap(references: BufferReferences, node: int, buffers: Any) -> None:
    work = references.work
    kept = references.contents.get(buffers[work.inputs[node][0]], [])
    for position, output in enumerate(work.outputs[node]):
        element = kept[position] if position < len(kept) else None
        if element is None:
            buffers[output] = references.allocate(work.sizes[output], output, node)
        else:
            buffers[output] = references.share(element)


_OPS = {
    "OptionalFromValue": _wrap,
    "OptionalGetValue": _unwrap,
    "EmptyTensorList": _new,
    "TensorListReserve": _new,
    "TensorListPushBack": _push,
    "TensorListPopBack": _pop,
    "TensorListSetItem": _set,
    "TensorListGetItem": _get,
    "TensorListFromTensor": _from_tensor,
    "ZerosLike": _zeros,
    "AddN": _sum,
    "TensorListResize": _resize,
}
