"""The graphs in a RunMetadata: each function before and after optimization, and its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from lowtide.sources.graphs.found_graphs import AFTER, BEFORE, PARTITION, FunctionGraph, GraphRange
from lowtide.sources.graphs.function_names import name_function
from lowtide.sources.protobuf.wire import BYTES, Buffer, WireError, read_text, walk, walk_inside

_PARTITION_GRAPHS, _FUNCTION_GRAPHS = 3, 4
_PARTITION, _BEFORE, _AFTER = 1, 2, 3
_NODE, _DEVICE = 1, 4

_THIS_MACHINE = "/job:localhost/replica:0/task:0/device:"
# More than a program has; a damaged file can claim one for every two bytes.
_MOST = 10_000

Bounds = tuple[int, int]


def find_run_graphs(data: Buffer, start: int, end: int, tag: str) -> Iterator[GraphRange]:
    """Yield each graph of a RunMetadata; damage is raised after the readable graphs."""
    outer, damage = _gather(data, start, end, (_PARTITION_GRAPHS, _FUNCTION_GRAPHS))
    functions = outer[_FUNCTION_GRAPHS]
    partitions_of_functions: list[int] = []
    for position, bounds in enumerate(functions, 1):
        inner, inner_damage = _gather(data, *bounds, (_PARTITION, _BEFORE, _AFTER))
        damage = damage or inner_damage
        name = tag if len(functions) == 1 else f"{tag} · function {position} of {len(functions)}"
        first = next(iter((*inner[_BEFORE], *inner[_AFTER], *inner[_PARTITION])), None)
        readable = None if first is None else name_function(data, *first)
        for number, stage in ((_BEFORE, BEFORE), (_AFTER, AFTER)):
            for graph in inner[number]:
                function = FunctionGraph(position, readable, stage)
                yield GraphRange(*graph, f"{name} · {stage} optimization", (), function, tag)
        for place, device in _partitions(data, inner[_PARTITION], name):
            yield replace(place, function=FunctionGraph(position, readable, PARTITION, device), tag=tag)
        partitions_of_functions += _lengths(inner[_PARTITION])
    # TensorFlow lists the partitions of all functions a second time, one after the other.
    if _lengths(outer[_PARTITION_GRAPHS]) != partitions_of_functions:
        for place, _ in _partitions(data, outer[_PARTITION_GRAPHS], tag):
            yield replace(place, tag=tag)
    if damage is not None:
        raise damage


def _gather(
    data: Buffer, start: int, end: int, numbers: tuple[int, ...]
) -> tuple[dict[int, list[Bounds]], WireError | None]:
    """Return the byte ranges of the messages with these field numbers, and the error that ended the walk."""
    places: dict[int, list[Bounds]] = {number: [] for number in numbers}
    try:
        for number, kind, first, last in walk(data, start, end):
            if kind == BYTES and number in places and len(places[number]) < _MOST:
                places[number].append((first, last))
    except WireError as error:
        return places, error
    return places, None


def _partitions(data: Buffer, graphs: list[Bounds], name: str) -> Iterator[tuple[GraphRange, str | None]]:
    """Yield each partition with its device."""
    for position, graph in enumerate(graphs, 1):
        device = _device(data, *graph)
        where = "" if device is None else f" ({device})"
        yield GraphRange(*graph, f"{name} · partition {position} of {len(graphs)}{where}"), device


def _device(data: Buffer, start: int, end: int) -> str | None:
    """Return the device of the first node, which all nodes of a partition share, without the name of this machine."""
    try:
        for node in islice(walk_inside(data, start, end, _NODE), 1):
            for device in walk_inside(data, *node, _DEVICE):
                return read_text(data, *device).removeprefix(_THIS_MACHINE) or None
    except WireError:
        pass
    return None


def _lengths(places: list[Bounds]) -> list[int]:
    return [end - start for start, end in places]
