"""Tensor lists: what loops keep for their gradients.

A list is a variant that holds references to its elements' buffers. Changing a list that somebody else holds
copies the references, never the elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowtide.program.dtypes import VARIANT

if TYPE_CHECKING:
    from lowtide.simulator.buffer_references import BufferId, Holdings


def start_list(holdings: Holdings, node: int, buffers: Any) -> None:
    """Run one list op: allocate its outputs and move references."""
    op = holdings.work.graph.ops[node]
    _OPS.get(op, _plain)(holdings, node, buffers)


def _plain(holdings: Holdings, node: int, buffers: Any) -> None:
    for output in holdings.work.outputs[node]:
        buffers[output] = holdings.allocate(holdings.work.sizes[output], output, node)


def _new(holdings: Holdings, node: int, buffers: Any) -> None:
    output = holdings.work.outputs[node][0]
    buffers[output] = _make(holdings, node, output, [])


def _make(holdings: Holdings, node: int, output: int, elements: list[BufferId | None]) -> BufferId:
    buffer = holdings.allocate(_VARIANT_BYTES, output, node)
    holdings.contents[buffer] = elements
    return buffer


_VARIANT_BYTES = 64


def _changed(holdings: Holdings, node: int, source: int, output: int, buffers: Any) -> list[BufferId | None]:
    """The elements to change: those of the input when it has no other holder, else a copy of the references."""
    buffer = buffers[source]
    elements = holdings.contents.setdefault(buffer, [])
    if holdings.holders[buffer] == 1:
        buffers[output] = holdings.share(buffer)
        return elements
    copy = list(elements)
    for element in copy:
        if element is not None:
            holdings.share(element)
    buffers[output] = _make(holdings, node, output, copy)
    return copy


def _push(holdings: Holdings, node: int, buffers: Any) -> None:
    work = holdings.work
    elements = _changed(holdings, node, work.inputs[node][0], work.outputs[node][0], buffers)
    elements.append(holdings.share(buffers[work.inputs[node][1]]))


def _pop(holdings: Holdings, node: int, buffers: Any) -> None:
    work = holdings.work
    rest, value = work.outputs[node]
    elements = _changed(holdings, node, work.inputs[node][0], rest, buffers)
    last = elements.pop() if elements else None
    # The reference moves from the list to the reader.
    buffers[value] = last if last is not None else holdings.allocate(work.sizes[value], value, node)


def _set(holdings: Holdings, node: int, buffers: Any) -> None:
    work = holdings.work
    elements = _changed(holdings, node, work.inputs[node][0], work.outputs[node][0], buffers)
    # Positions are not followed: each write fills the next place, which is what loops do.
    elements.append(holdings.share(buffers[work.inputs[node][2]]))


def _get(holdings: Holdings, node: int, buffers: Any) -> None:
    work = holdings.work
    output = work.outputs[node][0]
    source = buffers[work.inputs[node][0]]
    elements = [element for element in holdings.contents.get(source, ()) if element is not None]
    if elements:
        # Positions are not followed: each read takes the next element, because a loop reads each one once and often
        # keeps it for its gradient, longer than the list lives.
        position = holdings.reads[source] = holdings.reads.get(source, -1) + 1
        buffers[output] = holdings.share(elements[position % len(elements)])
    else:
        buffers[output] = holdings.allocate(work.sizes[output], output, node)


def _from_tensor(holdings: Holdings, node: int, buffers: Any) -> None:
    """Every row becomes an element of its own."""
    work = holdings.work
    source, output = work.inputs[node][0], work.outputs[node][0]
    rows = (work.graph.shapes[source] or (1,))[0]
    row_bytes = work.sizes[source] // max(rows, 1)
    elements: list[BufferId | None] = [holdings.allocate(row_bytes, output, node) for _ in range(max(rows, 0))]
    buffers[output] = _make(holdings, node, output, elements)


def _zeros(holdings: Holdings, node: int, buffers: Any) -> None:
    """Zeros like a list: as many new elements as it has."""
    work = holdings.work
    output = work.outputs[node][0]
    elements: list[BufferId | None] = [
        None if element is None else holdings.allocate(holdings.schedule.sizes[element], output, node)
        for element in holdings.contents.get(buffers[work.inputs[node][0]], [])
    ]
    buffers[output] = _make(holdings, node, output, elements)


def _sum(holdings: Holdings, node: int, buffers: Any) -> None:
    """A sum of lists: a new element where more than one list has one, else the element of the one that has it."""
    work = holdings.work
    output = work.outputs[node][0]
    lists = [holdings.contents.get(buffers[tensor], []) for tensor in work.inputs[node]]
    lists.sort(key=len)
    *others, fullest = lists
    added = len(others[-1]) if others else 0
    elements: list[BufferId | None] = [
        element
        if element is None
        else holdings.allocate(holdings.schedule.sizes[element], output, node)
        if position < added
        else holdings.share(element)
        for position, element in enumerate(fullest)
    ]
    buffers[output] = _make(holdings, node, output, elements)


def _resize(holdings: Holdings, node: int, buffers: Any) -> None:
    work = holdings.work
    if work.graph.dtypes[work.inputs[node][0]] == VARIANT:
        _changed(holdings, node, work.inputs[node][0], work.outputs[node][0], buffers)
    else:
        _plain(holdings, node, buffers)


def _wrap(holdings: Holdings, node: int, buffers: Any) -> None:
    """An optional keeps the tensors that a branch saved for its gradient."""
    work = holdings.work
    output = work.outputs[node][0]
    buffers[output] = _make(holdings, node, output, [holdings.share(buffers[tensor]) for tensor in work.inputs[node]])


def _unwrap(holdings: Holdings, node: int, buffers: Any) -> None:
    work = holdings.work
    kept = holdings.contents.get(buffers[work.inputs[node][0]], [])
    for position, output in enumerate(work.outputs[node]):
        element = kept[position] if position < len(kept) else None
        if element is None:
            buffers[output] = holdings.allocate(work.sizes[output], output, node)
        else:
            buffers[output] = holdings.share(element)


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
