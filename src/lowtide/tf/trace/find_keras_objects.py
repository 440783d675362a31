"""The Keras objects that a step function uses.

A hand-written step is only a function. Its layers, models and optimizers are found in its closure, its globals, or the
object that it is a method of.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

import keras

# How deep to follow lists, dictionaries and objects of user classes, and how many members of each.
MAX_DEPTH, MAX_MEMBERS = 6, 1000


def find_keras_objects(step: Any) -> list[Any]:
    """Return the layers, models and optimizers that a function refers to, each once."""
    found: list[Any] = []
    seen: set[int] = set()
    stack = [(step, 0)]
    while stack:
        thing, depth = stack.pop()
        if id(thing) in seen or depth > MAX_DEPTH:
            continue
        seen.add(id(thing))
        if isinstance(thing, (keras.Layer, keras.optimizers.Optimizer)):
            found.append(thing)
            optimizer = getattr(thing, "optimizer", None)
            stack += [(optimizer, depth)] if optimizer is not None else []
        else:
            stack += [(member, depth + 1) for member in _members(thing)]
    return found


def _members(thing: Any) -> Iterator[Any]:
    if isinstance(thing, functools.partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif isinstance(thing, types.MethodType):
        yield from (thing.__func__, thing.__self__)
    elif isinstance(thing, types.FunctionType):
        yield from _references(thing)
    elif isinstance(thing, dict):
        yield from list(thing.values())[:MAX_MEMBERS]
    elif isinstance(thing, (list, tuple, set, frozenset)):
        yield from list(thing)[:MAX_MEMBERS]
    elif hasattr(thing, "python_function"):
        yield thing.python_function
    elif hasattr(thing, "__dict__") and not isinstance(thing, (type, types.ModuleType)):
        yield from list(vars(thing).values())[:MAX_MEMBERS]


def _references(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        # A cell is empty until the enclosing function assigns its variable.
        if cell != types.CellType():
            yield cell.cell_contents
    yield from function.__defaults__ or ()
    for name in names_in(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]


def names_in(code: types.CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in the code of a function and of those inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)
