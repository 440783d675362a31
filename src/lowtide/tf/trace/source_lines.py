"""The user's own source line behind a node of the executed graph.

TensorFlow keeps the Python traceback of every operation it traces. The executed graph carries other names: functions
are inlined under the name of the node that called them, loops and branches under the name of the loop, and Grappler
names what it makes after the node it was made from. So a name is followed down through those calls.
"""

from __future__ import annotations

import functools
import os
import re
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

import lowtide.errors

# Grappler puts what it makes under its own names; behind them stands the node it was made from.
_GRAPPLER = re.compile(r"(?:^|(?<=/))(?:ConstantFolding|ArithmeticOptimizer|LoopOptimizer|Remapper)/(?:[A-Z]\w*_)?")
# What a loop or a branch calls its parts: "while/body/_12/...", "cond/then/_3/...".
_INLINED_PART = re.compile(r"^(?:body|cond|then|else|branch_\d+)/_\d+/")
_BACKWARD = "gradient_tape/"


def _folder(path: str | None) -> str | None:
    return None if path is None else os.path.join(os.path.realpath(os.path.dirname(path)), "")


_OWN = _folder(lowtide.errors.__file__) or ""
_PYTHON = [os.path.join(os.path.realpath(sysconfig.get_path(key)), "") for key in ("stdlib", "purelib", "platlib")]
_LIBRARIES = tuple({folder for folder in (*_PYTHON, _folder(tf.__file__), _folder(keras.__file__)) if folder})
# Around calls of the user's own, while a watch listens.
_WRAPPERS = "hooks.py"
# What AutoGraph makes of a user's function lies in a temporary file.
_GENERATED = "__autograph_generated_file"
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def source_finder(concrete: Any) -> Callable[[str], str | None]:
    """A function from node names to "file.py:line": the innermost frame that is the user's own, None where none is.

    A layer of a functional model was called when the model was built; nothing of that is kept, so its ops have none.
    """
    functions = inner_functions(concrete.graph)

    def find(name: str) -> str | None:
        operations = list(_operations(concrete.graph, name, functions))
        if not operations:
            # XLA names nodes as they are called in their own function.
            operations = [each for graph in functions.values() for each in _operations(graph, name, functions)]
        return next((line for line in map(line_of, operations) if line is not None), None)

    return find


def inner_functions(graph: Any) -> dict[str, Any]:
    """The graphs of all functions that a graph calls, by name."""
    found: dict[str, Any] = {}
    waiting = [graph]
    while waiting:
        for name, function in getattr(waiting.pop(), "_functions", {}).items():
            key = name.decode() if isinstance(name, bytes) else str(name)
            inner = getattr(function, "graph", None)
            if inner is not None and key not in found:
                found[key] = inner
                waiting.append(inner)
    return found


def _operations(graph: Any, name: str, functions: dict[str, Any]) -> Iterator[Any]:
    """The operations that may stand behind a name, the likeliest first."""
    for candidate in dict.fromkeys((name, _GRAPPLER.sub("", name), name.rpartition("-")[0])):
        if candidate.startswith(_BACKWARD):
            # The line that made a value tells more of its gradient than the line that asked for all gradients.
            yield from _forward_operations(graph, candidate[len(_BACKWARD) :], functions)
        operation = _operation(graph, candidate)
        if operation is not None:
            yield operation
        yield from _called_operations(graph, candidate, functions)


def _forward_operations(graph: Any, name: str, functions: dict[str, Any]) -> Iterator[Any]:
    """What a gradient belongs to: "dense/MatMul" for "dense/MatMul/MatMul_1", "Relu" for "ReluGrad"."""
    for candidate in (re.sub(r"Grad(?:_\d+)?$", "", name), *_prefixes(name)):
        operation = _operation(graph, candidate)
        if operation is not None:
            yield operation
            return
    yield from _called_operations(graph, name, functions)


def _called_operations(graph: Any, name: str, functions: dict[str, Any]) -> Iterator[Any]:
    """Operations in the functions that a node of this graph calls, and then that node itself."""
    for prefix in _prefixes(name):
        call = _operation(graph, prefix)
        if call is None:
            continue
        rest = _INLINED_PART.sub("", name[len(prefix) + 1 :])
        for called in _called_names(call):
            if called in functions:
                yield from _operations(functions[called], rest, functions)
        yield call
        return


def _called_names(call: Any) -> list[str]:
    attributes = call.node_def.attr
    return [attributes[key].func.name for key in attributes if attributes[key].HasField("func")]


def _prefixes(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def _operation(graph: Any, name: str) -> Any:
    if not name:
        return None
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None


@functools.lru_cache(maxsize=4096)
def _real_path(filename: str) -> str:
    """Tracebacks name few files, each many times, and every link on the way to one asks the disk."""
    return os.path.realpath(filename)


def line_of(operation: Any) -> str | None:
    """The innermost frame of neither Python's nor TensorFlow's nor Keras's; behind lowtide's own lies its caller."""
    for frame in reversed(list(operation.traceback or ())):
        if is_lowtide(frame.filename) and os.path.basename(frame.filename) != _WRAPPERS:
            return None
        if is_users(frame.filename):
            return f"{os.path.basename(_real_path(frame.filename))}:{frame.lineno}"
    return None


def line_of_frames(frames: Iterable[tuple[str, int]]) -> str | None:
    """The innermost of a stack of files and lines, outermost first, that is the user's own."""
    own = [(filename, line) for filename, line in frames if is_users(filename)]
    return f"{os.path.basename(_real_path(own[-1][0]))}:{own[-1][1]}" if own else None


def is_lowtide(filename: str) -> bool:
    return _real_path(filename).startswith(_OWN)


@functools.lru_cache(maxsize=4096)
def is_users(filename: str) -> bool:
    """Whether a file is the user's own: neither Python's, TensorFlow's, Keras's or another package's, nor lowtide's."""
    real = _real_path(filename)
    if filename.startswith("<") or _GENERATED in filename or real.startswith((_OWN, *_LIBRARIES)):
        return False
    return not any(folder in real for folder in _INSTALLED)
