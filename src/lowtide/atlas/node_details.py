"""The details of one node: its content in the file, its inputs and its readers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.references import CONTROL, MISSING
from lowtide.atlas.node_message import SHOWN_BYTES, NodeMessage, Shape, read_node
from lowtide.program.dtypes import RESOURCE, dtype_name, element_bytes

# The number of inputs and readers on one page.
PAGE = 50


@dataclass(frozen=True, slots=True)
class Output:
    """One output of a node."""

    dtype: str | None
    shape: Shape
    bytes: int | None


def outputs_of(atlas: Atlas, node: int, read: NodeMessage) -> list[Output]:
    """Return the known outputs of a node; the dtype is known for the first one only."""
    first, last = int(atlas.first_tensor[node]), int(atlas.first_tensor[node + 1])
    number = int(atlas.dtype[node])
    found = []
    for port in range(min(last - first, SHOWN_BYTES)):
        shape = read.shapes[port] if port < len(read.shapes) else None
        dtype = dtype_name(number) if number and port == 0 else None
        size = None
        if dtype is not None and shape is not None and None not in shape and number != RESOURCE:
            size = math.prod(each for each in shape if each is not None) * element_bytes(number)
        found.append(Output(dtype, shape, size if size is not None else int(atlas.tensor_bytes[first + port]) or None))
    return found


def node_details(atlas: Atlas, node: int, inputs_from: int = 0, readers_from: int = 0) -> dict[str, Any]:
    """Return the details of a node as plain data, with one page of inputs and of readers."""
    read = read_node(atlas, node)
    start, end = atlas.bytes_in_file(node)
    inputs, ports, readers = atlas.inputs_of(node), atlas.ports_of(node), atlas.readers_of(node)
    shown = range(inputs_from, min(inputs_from + PAGE, len(inputs)))
    return {
        "part": atlas.part_of(node),
        "name": atlas.name(node),
        "op": atlas.op_of(node),
        "device": atlas.devices[int(atlas.device[node])],
        "phase": atlas.phase_of(node),
        "scope": atlas.scope_name(int(atlas.scope[node])),
        "position": int(atlas.position[node]),
        "bytes_in_file": end - start,
        "outputs": [
            {"port": port, "dtype": output.dtype, "shape": output.shape, "bytes": output.bytes}
            for port, output in enumerate(outputs_of(atlas, node, read))
        ],
        "attributes": [
            {"name": each.name, "text": each.text, "bytes": each.bytes, "folded": each.folded}
            for each in read.attributes
        ],
        "inputs": [_input(atlas, int(inputs[place]), int(ports[place]), read, place) for place in shown],
        "input_count": len(inputs),
        "readers": [
            {
                "name": atlas.name(int(reader)),
                "op": atlas.op_of(int(reader)),
                "control": _is_control_reader(atlas, int(reader), node),
            }
            for reader in readers[readers_from : readers_from + PAGE]
        ],
        "reader_count": len(readers),
        "calls": [{"part": part, "name": atlas.parts[part]} for part in atlas.calls_of(node)],
    }


def _input(atlas: Atlas, source: int, port: int, read: NodeMessage, place: int) -> dict[str, Any]:
    is_control = port == int(CONTROL)
    if source == int(MISSING):
        given = read.inputs[place] if place < len(read.inputs) else "?"
        return {"name": given, "op": None, "port": port, "control": is_control, "bytes": None, "missing": True}
    first, last = int(atlas.first_tensor[source]), int(atlas.first_tensor[source + 1])
    size = int(atlas.tensor_bytes[first + port]) if not is_control and first + port < last else 0
    return {
        "name": atlas.name(source),
        "op": atlas.op_of(source),
        "port": None if is_control else port,
        "control": is_control,
        "bytes": size or None,
        "missing": False,
    }


def _is_control_reader(atlas: Atlas, reader: int, node: int) -> bool:
    """Return whether a reader has only control inputs from a node."""
    ports = atlas.ports_of(reader)[atlas.inputs_of(reader) == node]
    return bool((ports == CONTROL).all())
