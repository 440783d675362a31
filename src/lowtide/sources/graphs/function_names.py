"""What a graph can be called and how large it is, without an index: traced runs hold functions without names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from lowtide.sources.protobuf.wire import BYTES, Buffer, WireError, read_text, walk, walk_inside

_NODE, _LIBRARY = 1, 2
_FUNCTION = 1
_SIGNATURE, _ARGUMENT = 1, 2
# The index has a node for each node, result and control result of a function, and for each argument.
_FUNCTION_NODES = (3, 4, 6)
_NAME, _OP = 1, 2

# Nodes at the border of a function, which say nothing about it.
_BORDER = ("_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "NoOp", "Identity")
# TensorFlow's prefix for the kind of a function, and the number that makes its name unique.
_DECORATION = re.compile(r"^__(?:inference|forward|backward)_|_\d+$")
_BACKWARD = "__backward_"

# Nodes that are looked at for a name; a name needs no more.
_MOST_NODES = 20_000
_MOST_SCOPES = 3


def count_nodes(data: Buffer, start: int, end: int) -> int:
    """Return the number of nodes of a GraphDef, with those of its functions, as its index will count them."""
    count = 0
    try:
        for number, kind, first, last in walk(data, start, end):
            if kind == BYTES and number == _NODE:
                count += 1
            elif kind == BYTES and number == _LIBRARY:
                count += sum(_count_function(data, *function) for function in walk_inside(data, first, last, _FUNCTION))
    except WireError:
        # What was counted until the damage can be shown.
        pass
    return count


def _count_function(data: Buffer, start: int, end: int) -> int:
    count = 0
    for number, kind, first, last in walk(data, start, end):
        if kind == BYTES and number in _FUNCTION_NODES:
            count += 1
        elif kind == BYTES and number == _SIGNATURE:
            count += sum(1 for _ in walk_inside(data, first, last, _ARGUMENT))
    return count


def name_function(data: Buffer, start: int, end: int) -> str | None:
    """Return a name for the GraphDef of a function: the function in it, its only op, its scopes, or its main op.

    None if the graph has no nodes but arguments and results.
    """
    inside, size = max(_library_names(data, start, end), key=lambda each: each[1], default=("", 0))
    if 2 * size > end - start:
        return readable_name(inside)
    inner = [(name, op) for name, op in _nodes(data, start, end) if op not in _BORDER]
    ops = Counter(op for _, op in inner)
    if len(inner) <= 1 or len(ops) == 1:
        return next(iter(ops), None)
    scopes = Counter(scope for name, _ in inner if (scope := name.partition("/")[0]) != name)
    if sum(scopes.values()) > len(inner) / 2:
        return ", ".join(scope for scope, _ in scopes.most_common(_MOST_SCOPES))
    return next((op for op, _ in ops.most_common() if op != "Const"), None)


def readable_name(function: str) -> str:
    """Return the name of a function as its author wrote it: `__inference_train_step_844` is `train_step`."""
    name = _DECORATION.sub("", function) or function
    return f"{name} (gradients)" if function.startswith(_BACKWARD) else name


def _nodes(data: Buffer, start: int, end: int) -> Iterator[tuple[str, str]]:
    """Yield the name and op of the first nodes, as far as they can be read."""
    try:
        for position, node in enumerate(walk_inside(data, start, end, _NODE)):
            if position == _MOST_NODES:
                return
            texts = {
                number: read_text(data, first, last)
                for number, kind, first, last in walk(data, *node)
                if kind == BYTES and number in (_NAME, _OP)
            }
            yield texts.get(_NAME, ""), texts.get(_OP, "")
    except WireError:
        return


def _library_names(data: Buffer, start: int, end: int) -> Iterator[tuple[str, int]]:
    """Yield the name of each function of the library, and its size in bytes."""
    try:
        for library in walk_inside(data, start, end, _LIBRARY):
            for first, last in walk_inside(data, *library, _FUNCTION):
                for signature in walk_inside(data, first, last, _SIGNATURE):
                    for name in walk_inside(data, *signature, _NAME):
                        yield read_text(data, *name), last - first
    except WireError:
        return
