"""The graphs that a SavedModel serves: for each signature, the function that computes it, without save and restore.

A SavedModel's own graph consists of checkpoint ops and of one call for each signature. Here the function behind that
call becomes a graph, with the functions that it calls. In a SavedModel of TensorFlow 1 a signature names nodes of the
graph; it becomes the graph of these nodes and of all nodes that they need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import IO

from lowtide.sources.graphs.found_graphs import GraphCollector, GraphRange
from lowtide.sources.protobuf.encode import dtype_attribute, encode_bytes, encode_node
from lowtide.sources.protobuf.wire import BYTES, VARINT, Buffer, WireError, read_text, walk, walk_inside

DEFAULT_SIGNATURE = "serving_default"
BODY = "its nodes are the body of a function"
"""Why TensorFlow does not import the graph of a function."""

_NODE, _LIBRARY, _VERSIONS = 1, 2, 4
_NAME, _OP, _INPUT, _ATTRIBUTE = 1, 2, 3, 5
_FUNCTION, _SIGNATURE, _BODY_NODE, _ARGUMENT_ATTRIBUTES = 1, 1, 3, 7
_ARGUMENT, _ARGUMENT_TYPE = 2, 3
_KEY, _VALUE = 1, 2
_CALLED, _LIST, _LIST_CALLED = 10, 1, 9
_SIGNATURES, _OUTPUTS = 5, 2

# Signatures that TensorFlow adds for initialization and training.
_INTERNAL = ("__saved_model_init_op", "__saved_model_train_op")
_CHECKPOINTS = ("__inference__traced_save_", "__inference__traced_restore_")
# Functions that TensorFlow adds for hash tables and for gradients.
_AUXILIARY = (
    "__inference__creator_", "__inference__initializer_", "__inference__destroyer_", "__inference_internal_grad_fn_",
)  # fmt: skip
_CALL_METHOD = "__call__"
# Ops of a function that only wraps a call.
_WRAPPING = ("Identity", "NoOp")
# Larger graphs are shown as they are: they are walked node by node here.
_LARGEST_BYTES = 256 << 20
_MOST_SIGNATURES = 50
_LONGEST_NAME = 10_000


def write_signatures(
    data: Buffer, meta: tuple[int, int], graph: tuple[int, int], tags: str, out: IO[bytes], findings: GraphCollector
) -> None:
    """Write a graph for each signature of a MetaGraphDef, the default one first; for each function if it has none."""
    if graph[1] - graph[0] > _LARGEST_BYTES or graph[1] > len(data):
        return
    try:
        parts = _GraphParts(data, *graph)
        signatures = dict(islice(_read_signatures(data, *meta), _MOST_SIGNATURES))
        wanted = sorted(signatures, key=lambda name: (name != DEFAULT_SIGNATURE, name))
        for name in wanted:
            _write_signature(parts, signatures[name], f"{tags} · {name}", out, findings)
        if not wanted:
            for function in islice(_public_functions(parts), _MOST_SIGNATURES):
                _write_function(parts, function, f"{tags} · {function}", out, findings)
    except WireError:
        # The whole graph is shown, with a note about the damage.
        return


@dataclass(frozen=True)
class _Node:
    """A node: its name, op, inputs, and the functions that it calls."""

    name: str
    op: str
    inputs: list[str]
    calls: list[str]


@dataclass
class _GraphParts:
    """The nodes and functions of a GraphDef."""

    data: Buffer
    start: int
    end: int
    nodes: dict[str, tuple[int, int]] = field(default_factory=dict)
    functions: dict[str, tuple[int, int]] = field(default_factory=dict)
    versions: bytes = b""

    def __post_init__(self) -> None:
        for number, kind, first, last in walk(self.data, self.start, self.end):
            if kind != BYTES:
                continue
            if number == _NODE:
                self.nodes[_first_text(self.data, first, last, _NAME)] = (first, last)
            elif number == _LIBRARY:
                for place in walk_inside(self.data, first, last, _FUNCTION):
                    for signature in walk_inside(self.data, *place, _SIGNATURE):
                        self.functions[_first_text(self.data, *signature, _NAME)] = place
            elif number == _VERSIONS:
                self.versions = encode_bytes(_VERSIONS, bytes(self.data[first:last]))

    def body(self, function: str) -> list[_Node]:
        """Return the nodes of a function."""
        return [self.read(place) for place in walk_inside(self.data, *self.functions[function], _BODY_NODE)]

    def read(self, place: tuple[int, int]) -> _Node:
        """Parse a node."""
        name = op = ""
        inputs: list[str] = []
        calls: list[str] = []
        for number, kind, first, last in walk(self.data, *place):
            if kind != BYTES:
                continue
            if number == _NAME:
                name = read_text(self.data, first, last, _LONGEST_NAME)
            elif number == _OP:
                op = read_text(self.data, first, last, _LONGEST_NAME)
            elif number == _INPUT:
                inputs.append(read_text(self.data, first, last, _LONGEST_NAME))
            elif number == _ATTRIBUTE:
                for value in walk_inside(self.data, first, last, _VALUE):
                    calls += _called_functions(self.data, *value)
        return _Node(name, op, inputs, [call for call in (*calls, op) if call in self.functions])

    def called_from(self, function: str) -> list[str]:
        """Return the functions that a function calls, directly or through others."""
        found: dict[str, None] = {}
        waiting = [function]
        while waiting:
            for node in self.body(waiting.pop()):
                fresh = [call for call in node.calls if call not in found]
                found.update(dict.fromkeys(fresh))
                waiting += fresh
        return list(found)

    @cached_property
    def called(self) -> set[str]:
        """All functions that another function calls."""
        return {call for function in self.functions for node in self.body(function) for call in node.calls}


def _write_signature(
    parts: _GraphParts, outputs: list[str], label: str, out: IO[bytes], findings: GraphCollector
) -> None:
    names = [name for output in outputs if (name := output.partition(":")[0]) in parts.nodes]
    if not names:
        return
    calls = {tuple(parts.read(parts.nodes[name]).calls) for name in names}
    if len(calls) == 1 and len(call := calls.pop()) == 1:
        _write_function(parts, _unwrap(parts, call[0]), label, out, findings)
        return
    start = out.tell()
    for place in _ancestors(parts, names):
        out.write(encode_bytes(_NODE, bytes(parts.data[place[0] : place[1]])))
    called = {call for name in names for call in parts.read(parts.nodes[name]).calls}
    _write_library(parts, [each for call in called for each in (call, *parts.called_from(call))], out)
    out.write(parts.versions)
    findings.add(GraphRange(start, out.tell(), label))


def _ancestors(parts: _GraphParts, names: list[str]) -> list[tuple[int, int]]:
    """Return the nodes that some nodes need, and these nodes, in the order of the file."""
    found: set[str] = set(names)
    waiting = list(found)
    while waiting:
        node = parts.read(parts.nodes[waiting.pop()])
        for each in node.inputs:
            name = each.removeprefix("^").partition(":")[0]
            if name in parts.nodes and name not in found:
                found.add(name)
                waiting.append(name)
    return sorted(parts.nodes[name] for name in found)


def _unwrap(parts: _GraphParts, function: str) -> str:
    """Return the function that a function calls if it does nothing else."""
    for _ in parts.functions:
        working = [node for node in parts.body(function) if node.op not in _WRAPPING]
        if len(working) != 1 or len(working[0].calls) != 1:
            break
        function = working[0].calls[0]
    return function


def _write_function(parts: _GraphParts, function: str, label: str, out: IO[bytes], findings: GraphCollector) -> None:
    """Write the body of a function as a graph; its arguments become placeholders."""
    start = out.tell()
    data, place = parts.data, parts.functions[function]
    shapes = _argument_attributes(data, *place)
    for signature in walk_inside(data, *place, _SIGNATURE):
        for number, argument in enumerate(walk_inside(data, *signature, _ARGUMENT)):
            dtype = next(
                (value for each, kind, value, _ in walk(data, *argument) if (each, kind) == (_ARGUMENT_TYPE, VARINT)), 0
            )
            attributes = {"dtype": dtype_attribute(dtype), **shapes.get(number, {})}
            out.write(encode_node(_first_text(data, *argument, _NAME), "Placeholder", (), attributes))
    for first, last in walk_inside(data, *place, _BODY_NODE):
        out.write(encode_bytes(_NODE, bytes(data[first:last])))
    _write_library(parts, parts.called_from(function), out)
    out.write(parts.versions)
    findings.add(GraphRange(start, out.tell(), label, (f"the function {function}",), import_obstacle=BODY))


def _write_library(parts: _GraphParts, functions: list[str], out: IO[bytes]) -> None:
    places = [parts.functions[name] for name in dict.fromkeys(functions)]
    if places:
        library = b"".join(encode_bytes(_FUNCTION, bytes(parts.data[first:last])) for first, last in places)
        out.write(encode_bytes(_LIBRARY, library))


def _argument_attributes(data: Buffer, start: int, end: int) -> dict[int, dict[str, bytes]]:
    """Return the attributes of each argument of a function, such as its shape."""
    found: dict[int, dict[str, bytes]] = {}
    for entry in walk_inside(data, start, end, _ARGUMENT_ATTRIBUTES):
        number = next((value for each, kind, value, _ in walk(data, *entry) if (each, kind) == (_KEY, VARINT)), 0)
        for attributes in walk_inside(data, *entry, _VALUE):
            for attribute in walk_inside(data, *attributes, 1):
                for first, last in walk_inside(data, *attribute, _VALUE):
                    name = _first_text(data, *attribute, _KEY)
                    found.setdefault(number, {})[name] = bytes(data[first:last])
    return found


def _public_functions(parts: _GraphParts) -> Iterator[str]:
    """Yield the functions that no other function calls, without those of checkpoints.

    `__call__` comes first, and functions that TensorFlow adds come last.
    """
    functions = (name for name in parts.functions if name not in parts.called and not name.startswith(_CHECKPOINTS))
    yield from sorted(functions, key=lambda name: (name.startswith(_AUXILIARY), _CALL_METHOD not in name, name))


def _called_functions(data: Buffer, start: int, end: int) -> Iterator[str]:
    """Yield the names of the functions in the value of an attribute, which may be a list."""
    for called in walk_inside(data, start, end, _CALLED):
        yield _first_text(data, *called, _NAME)
    for values in walk_inside(data, start, end, _LIST):
        for called in walk_inside(data, *values, _LIST_CALLED):
            yield _first_text(data, *called, _NAME)


def _read_signatures(data: Buffer, start: int, end: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each signature, and the tensors that it returns."""
    for entry in walk_inside(data, start, end, _SIGNATURES):
        name = _first_text(data, *entry, _KEY)
        outputs = [
            _first_text(data, *tensor, _NAME)
            for signature in walk_inside(data, *entry, _VALUE)
            for output in walk_inside(data, *signature, _OUTPUTS)
            for tensor in walk_inside(data, *output, _VALUE)
        ]
        if name not in _INTERNAL and outputs:
            yield name, outputs


def _first_text(data: Buffer, start: int, end: int, number: int) -> str:
    return next((read_text(data, *place, _LONGEST_NAME) for place in walk_inside(data, start, end, number)), "")
