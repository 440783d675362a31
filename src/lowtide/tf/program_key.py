"""A digest of a program before it is traced: of everything that it can be traced into another graph by.

The digest goes through the objects that the program refers to: models with their layers and optimizers, the code,
closures and globals of functions, and the numbers, texts and arrays in them. Contents of variables do not matter. If it
meets an object whose contents it cannot see, there is no digest, and the program is traced.
"""

from __future__ import annotations

import collections
import enum
import functools
import hashlib
import inspect
import logging
import threading
import types
import weakref
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.ops.function import Function
from keras.src.utils.tracking import Tracker
from tensorflow.python.eager import context

from lowtide.cache.surroundings import is_installed
from lowtide.tf.trace.find_keras_objects import names_in

# A program with more objects takes longer to digest than is worth it.
_MOST_OBJECTS = 2_000_000
_MOST_HASHED_BYTES = 64 << 20
# Larger floating-point tensors are captured, not copied into the graph, so that their contents do not matter.
_COPIED_ELEMENTS = 128

_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
_SPECS = (tf.TensorShape, tf.DType, tf.TypeSpec, np.dtype)
# Objects that synchronize, count references or report, and change no graph.
_PASSIVE = (
    type(threading.Lock()),
    type(threading.RLock()),
    threading.local,
    weakref.ReferenceType,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    weakref.WeakSet,
    logging.Logger,
    # Remembers objects by identity; they are attributes of its owner as well.
    Tracker,
)
# Functions and descriptors that are compiled: each is what its name says.
_COMPILED = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
)


class UnknownProgramError(Exception):
    """The program refers to something whose contents cannot be seen."""


def program_digest(target: Any, *specs: Any) -> str | None:
    """Return a digest of a model or a step with its specs; None if it refers to something that cannot be seen."""
    digest = _Digest()
    try:
        # The settings of TensorFlow and Keras for the whole process.
        digest.add(context.context().config.SerializeToString(deterministic=True))
        digest.add([keras.config.floatx(), keras.config.image_data_format(), keras.config.epsilon()])
        digest.add(keras.config.dtype_policy().get_config())
        digest.add([tf.config.functions_run_eagerly(), keras.distribution.distribution() is None])
        digest.add((target, specs))
        digest.finish()
    except (UnknownProgramError, RecursionError):
        return None
    return digest.total.hexdigest()


class _Digest:
    """Goes through objects, each once, in an order that is the same in every process."""

    def __init__(self) -> None:
        self.total = hashlib.blake2b(digest_size=20)
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._waiting: list[Any] = []

    def add(self, value: Any) -> None:
        self._waiting.append(value)

    def finish(self) -> None:
        while self._waiting:
            self._visit(self._waiting.pop())

    def _write(self, *texts: str) -> None:
        for text in texts:
            self.total.update(text.encode(errors="surrogatepass") + b"\0")

    def _visit(self, value: Any) -> None:
        if isinstance(value, _SCALARS) and not isinstance(value, enum.Enum):
            self._write(type(value).__name__, repr(value))
            return
        known = self._numbers.get(id(value))
        if known is not None:
            self._write("again", str(known))
            return
        self._numbers[id(value)] = len(self._numbers)
        # Kept alive, so that no other object gets its identity.
        self._kept.append(value)
        if len(self._kept) > _MOST_OBJECTS:
            raise UnknownProgramError("too many objects")
        kind = type(value)
        self._write(f"{kind.__module__}.{kind.__qualname__}")
        members = list(self._members(value))
        self._write(str(len(members)))
        self._waiting.extend(reversed(members))

    def _members(self, value: Any) -> Iterator[Any]:
        """Yield what a value consists of; raise an error for one whose contents cannot be seen."""
        if isinstance(value, _PASSIVE):
            return
        if isinstance(value, enum.Enum):
            yield value.name
        elif isinstance(value, _SPECS):
            yield repr(value)
        elif isinstance(value, (tf.Variable, keras.Variable)):
            yield from (value.name, tuple(value.shape), str(value.dtype), value.trainable)
            yield getattr(value, "path", None)
            yield from (getattr(value, "constraint", None), getattr(value, "regularizer", None))
        elif isinstance(value, (tf.Tensor, np.ndarray, np.generic)):
            yield from self._array(value)
        elif isinstance(value, types.ModuleType):
            yield value.__name__
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            yield value.__qualname__
            owner = value.__self__
            yield owner.__name__ if isinstance(owner, types.ModuleType) else owner
        elif isinstance(value, _COMPILED):
            yield (value.__objclass__, value.__name__)
        elif isinstance(value, np.ufunc):
            yield value.__name__
        elif isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, types.CodeType):
            yield from self._code(value)
        elif isinstance(value, types.FunctionType):
            yield from self._function(value)
        elif isinstance(value, types.MethodType):
            yield from (value.__func__, value.__self__)
        elif isinstance(value, functools.partial):
            yield from (value.func, value.args, value.keywords)
        elif isinstance(value, (staticmethod, classmethod)):
            yield value.__func__
        elif isinstance(value, property):
            yield from (value.fget, value.fset)
        elif isinstance(value, functools.cached_property):
            yield value.func
        elif isinstance(value, (range, slice, PurePath, types.GenericAlias)) or type(value).__module__ == "typing":
            yield repr(value)
        elif isinstance(value, tf.types.experimental.PolymorphicFunction):
            yield from self._traced_function(value)
        else:
            yield from self._object(value)

    def _array(self, value: Any) -> Iterator[Any]:
        yield from (tuple(value.shape), str(value.dtype))
        if isinstance(value, tf.Tensor):
            if not hasattr(value, "numpy"):
                # A symbolic tensor has a name.
                yield value.name
                return
            if value.dtype.is_floating and value.shape.num_elements() > _COPIED_ELEMENTS:
                return
            if value.dtype in (tf.resource, tf.variant):
                raise UnknownProgramError(value.dtype.name)
            value = value.numpy()
        array = np.asarray(value)
        if array.nbytes > _MOST_HASHED_BYTES:
            raise UnknownProgramError("a large array")
        content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
        yield hashlib.blake2b(content, digest_size=16).hexdigest()

    def _class(self, value: type) -> Iterator[Any]:
        yield from (value.__module__, value.__qualname__)
        if _is_own(value):
            yield value.__bases__
            ignored = ("__dict__", "__weakref__", "__doc__", "abc_impl")
            yield {name: each for name, each in vars(value).items() if not name.endswith(ignored)}

    def _code(self, value: types.CodeType) -> Iterator[Any]:
        yield from (value.co_filename, value.co_name, value.co_firstlineno, value.co_flags)
        yield from (value.co_code, value.co_linetable, value.co_exceptiontable)
        yield from (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars, value.co_consts)

    def _function(self, value: types.FunctionType) -> Iterator[Any]:
        yield from (value.__module__, value.__qualname__, value.__defaults__, value.__kwdefaults__)
        for cell in value.__closure__ or ():
            # A cell is empty until the enclosing function assigns its variable.
            yield cell.cell_contents if cell != types.CellType() else None
        yield {name: each for name, each in vars(value).items() if name != "__wrapped__" and "api_export" not in name}
        if not is_installed(value.__code__.co_filename):
            yield value.__code__
            yield from _referenced(sorted(set(names_in(value.__code__))), value.__globals__)

    def _traced_function(self, value: Any) -> Iterator[Any]:
        yield from (value.python_function, value.input_signature)
        # The options of tf.function; the rest is what it has traced.
        yield {name: each for name, each in vars(value).items() if isinstance(each, _SCALARS)}

    def _object(self, value: Any) -> Iterator[Any]:
        found = False
        if isinstance(value, dict):
            found = True
            # A defaultdict's factory and the like are attributes or unseen, and make no difference to what is in it.
            for key, each in value.items():
                yield from (key, each)
        elif isinstance(value, (list, tuple, collections.deque)):
            found = True
            yield from value
        elif isinstance(value, (set, frozenset)):
            found = True
            yield self._unordered(value)
        elif isinstance(value, types.MappingProxyType):
            found = True
            yield dict(value)
        attributes = _attributes(value)
        kind: Any = type(value)
        if (not found and attributes is None) or not _is_open(kind):
            raise UnknownProgramError(f"{type(value).__module__}.{type(value).__qualname__}")
        if attributes:
            # Insertion orders may differ; names do not.
            for name in sorted(attributes):
                yield from (name, attributes[name])
        if not isinstance(value, (dict, list, tuple, set, frozenset)) or _is_own(type(value)):
            yield type(value)

    def _unordered(self, value: Any) -> list[str]:
        if not all(isinstance(each, (*_SCALARS, type, tuple)) for each in value):
            raise UnknownProgramError("a set of objects")
        return sorted(repr(each) for each in value)


# Compiled classes whose elements are all there is, and the flag of classes that are not compiled into a module.
_CONTAINERS = frozenset(
    {object, dict, list, tuple, set, frozenset, collections.deque, collections.defaultdict, collections.OrderedDict}
    | {types.MappingProxyType, types.SimpleNamespace}
)
_MADE_BY_PYTHON = 1 << 9
# What Keras keeps of earlier calls of `fit`, which a prediction does not use.
_EARLIER_CALLS = frozenset({"train_function", "test_function", "predict_function"})


def _attributes(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object; None if it has no place for any."""
    found: dict[str, Any] = {}
    has_place = hasattr(value, "__dict__")
    if has_place:
        found |= vars(value)
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            has_place = True
            if name not in ("__weakref__", "__dict__") and hasattr(value, name):
                found[name] = getattr(value, name)
    if not has_place:
        return None
    if isinstance(value, keras.Model):
        found = {name: each for name, each in found.items() if name not in _EARLIER_CALLS}
    if isinstance(value, Function):
        # Identities of the nodes that `_nodes_by_depth` lists.
        found = {name: each for name, each in found.items() if not (isinstance(each, set) and name.endswith("nodes"))}
    # Seeds that Keras draws when none is given decide on values of variables, and never on a graph.
    if isinstance(value, (keras.initializers.Initializer, keras.random.SeedGenerator)):
        found = {name: each for name, each in found.items() if not name.endswith("seed")}
    return found


@functools.cache
def _is_open(kind: type) -> bool:
    """Whether objects of a class have nothing but attributes and elements; compiled classes may hold more."""
    return all(
        base in _CONTAINERS or (base.__flags__ & _MADE_BY_PYTHON and not type(base).__name__.startswith("pybind11"))
        for base in kind.__mro__
    )


@functools.cache
def _is_own(kind: type) -> bool:
    """Whether a class is the user's own."""
    module = inspect.getmodule(kind)
    file = getattr(module, "__file__", None)
    if module is None or kind.__module__ == "__main__":
        return True
    return file is not None and not is_installed(file)


def _referenced(names: list[str], namespace: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what these names stand for, and what they stand for in the user's own modules among these."""
    waiting, seen = [namespace], {id(namespace)}
    while waiting:
        current = waiting.pop()
        for name in names:
            if name in current:
                value = current[name]
                yield (name, value)
                if isinstance(value, types.ModuleType) and _is_own_module(value) and id(vars(value)) not in seen:
                    seen.add(id(vars(value)))
                    waiting.append(vars(value))


def _is_own_module(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and not is_installed(file)
