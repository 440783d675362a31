"""The line of user code that created a node of the executed graph.

TensorFlow keeps the Python traceback of every operation it traces. The names in the executed graph differ: functions
are inlined under the name of the node that calls them, loops and branches under the name of the loop, and Grappler
names a new node after the node it replaces. So a name is followed through those calls.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

import lowtide.errors

# The prefixes of the nodes that Grappler creates; the name of the original node follows.
_GRAPPLER = re.compile(r"(?:^|(?<=/))(?:ConstantFolding|ArithmeticOptimizer|LoopOptimizer|Remapper)/(?:[A-Z]\w*_)?")
# The names of the parts of a loop or a branch: "while/body/_12/...", "cond/then/_3/...".
_INLINED_PART = re.compile(r"^(?:body|cond|then|else|branch_\d+)/_\d+/")
_BACKWARD = "gradient_tape/"


def _folder(path: str | None) -> str | None:
    return None if path is None else os.path.join(os.path.realpath(os.path.dirname(path)), "")


_OWN = _folder(lowtide.errors.__file__) or ""
# Keras may be partly imported at this moment.
_KERAS = getattr(importlib.util.find_spec("keras"), "origin", None)
_PYTHON = [os.path.join(os.path.realpath(sysconfig.get_path(key)), "") for key in ("stdlib", "purelib", "platlib")]
_LIBRARIES = tuple({folder for folder in (*_PYTHON, _folder(tf.__file__), _folder(_KERAS)) if folder})
# The files whose wrappers surround calls of user code: while a watch is on, and around `fit`.
_WRAPPERS = frozenset({"hooks.py", "fit_hook.py", "fit.py", "keep_going.py"})
# AutoGraph writes the code that it generates from a user's function to a temporary file.
_GENERATED = "__autograph_generated_file"
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def make_source_finder(concrete: Any) -> Callable[[str], str | None]:
    """Return a function from node names to "file.py:line", the innermost frame of user code; None if there is none.

    The layers of a functional model are called when the model is built, and no traceback of that is kept, so their
    ops have no line.
    """
    functions = inner_functions(concrete.graph)

    def find(name: str) -> str | None:
        operations = list(_operations(concrete.graph, name, functions))
        if not operations:
            # XLA uses the names that nodes have inside their function.
            operations = [each for graph in functions.values() for each in _operations(graph, name, functions)]
        return next((line for line in map(find_user_line, operations) if line is not None), None)

    return find


def inner_functions(graph: Any) -> dict[str, Any]:
    """Return the graphs of all functions that a graph calls, directly or not, by name."""
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
    """Yield the operations that a name may refer to, the likeliest first."""
    for candidate in dict.fromkeys((name, _GRAPPLER.sub("", name), name.rpartition("-")[0])):
        if candidate.startswith(_BACKWARD):
            # For a gradient, the line of the forward op says more than the line that computes all gradients.
            yield from _forward_operations(graph, candidate[len(_BACKWARD) :], functions)
        operation = _operation(graph, candidate)
        if operation is not None:
            yield operation
        yield from _called_operations(graph, candidate, functions)


def _forward_operations(graph: Any, name: str, functions: dict[str, Any]) -> Iterator[Any]:
    """Yield the op whose gradient this is: "dense/MatMul" for "dense/MatMul/MatMul_1", "Relu" for "ReluGrad"."""
    for candidate in (re.sub(r"Grad(?:_\d+)?$", "", name), *_prefixes(name)):
        operation = _operation(graph, candidate)
        if operation is not None:
            yield operation
            return
    yield from _called_operations(graph, name, functions)


def _called_operations(graph: Any, name: str, functions: dict[str, Any]) -> Iterator[Any]:
    """Yield operations of the functions that a node of this graph calls, and then that node itself."""
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
    """Return the real path; cached, because tracebacks name few files many times and each lookup reads the disk."""
    return os.path.realpath(filename)


def find_user_line(operation: Any) -> str | None:
    """Return the innermost line of user code in an operation's traceback; None if lowtide created the operation."""
    for frame in reversed(list(operation.traceback or ())):
        if is_lowtide_file(frame.filename) and os.path.basename(frame.filename) not in _WRAPPERS:
            return None
        if is_user_file(frame.filename):
            return f"{os.path.basename(_real_path(frame.filename))}:{frame.lineno}"
    return None


def find_user_frame(frames: Iterable[tuple[str, int]]) -> str | None:
    """Return the innermost line of user code in a stack of files and lines, outermost first."""
    own = [(filename, line) for filename, line in frames if is_user_file(filename)]
    return f"{os.path.basename(_real_path(own[-1][0]))}:{own[-1][1]}" if own else None


def is_lowtide_file(filename: str) -> bool:
    """Whether a file is part of lowtide."""
    return _real_path(filename).startswith(_OWN)


@functools.lru_cache(maxsize=4096)
def is_user_file(filename: str) -> bool:
    """Whether a file is user code: not part of Python, of an installed package, or of lowtide."""
    real = _real_path(filename)
    if filename.startswith("<") or _GENERATED in filename or real.startswith((_OWN, *_LIBRARIES)):
        return False
    return not any(folder in real for folder in _INSTALLED)
