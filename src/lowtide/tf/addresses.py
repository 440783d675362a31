"""Whose memory an address is: the variables and the arguments that Python knows of."""

from __future__ import annotations

import ctypes
import gc
import math
import weakref
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.ops import gen_resource_variable_ops, resource_variable_ops

from lowtide.run.record import NOWHERE_KNOWN, Place
from lowtide.tf.models import layer_names, variable_kinds
from lowtide.tide.layers import find_owner, find_slot_owners


def address_of(tensor: Any) -> int | None:
    """Where a tensor's bytes lie; None for what has no plain bytes, or none of its own."""
    if tensor.dtype in (tf.string, tf.resource, tf.variant):
        return None
    try:
        capsule = tf.experimental.dlpack.to_dlpack(tensor)
    except (tf.errors.OpError, ValueError, TypeError):
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"dltensor")
    # A DLManagedTensor begins with the address of its data.
    return ctypes.cast(pointer, ctypes.POINTER(ctypes.c_void_p))[0]


ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def live_objects() -> tuple[list[Any], list[Any]]:
    """The variables of this process, and the Keras layers and optimizers that may own them."""
    variables, owners = [], []
    for thing in gc.get_objects():
        kind = type(thing)
        # isinstance would ask objects that answer with code of their own.
        if issubclass(kind, resource_variable_ops.BaseResourceVariable):
            variables.append(thing)
        elif issubclass(kind, (keras.Layer, keras.optimizers.Optimizer)):
            owners.append(thing)
    return variables, owners


class Lookup:
    """Finds the addresses of variables again and again: an update may move one."""

    def __init__(self) -> None:
        self.layers: frozenset[str] = frozenset()
        self.kinds: dict[int, tuple[str, str]] = {}
        """Kind and name of each variable, by the identity of its handle."""
        self._known: list[tuple[weakref.ref[Any], str, str, str | None]] = []
        self._seen: set[int] = set()
        self._last: dict[int, int] = {}
        """Where each variable was last, by the identity of its handle."""
        self._copied: set[int] = set()
        """Variables of which every read is a copy, after an update of single rows: they stay where they are."""

    def refresh(self) -> None:
        """Look for the variables that exist by now."""
        variables, owners = live_objects()
        self._known = [
            (weakref.ref(variable), name, kind, layer) for variable, name, kind, layer in described(variables, owners)
        ]
        # Models may be gone when their steps are looked at; their names are not.
        self.layers |= layer_names(owners)
        self.kinds |= {
            id(variable.handle): (kind, name)
            for variable, (_, name, kind, _) in zip(variables, self._known, strict=True)
        }
        self._seen = {id(variable) for variable in variables}

    def places(self, concrete: Any, inputs: Any) -> tuple[Place, ...]:
        """Where the variables and the arguments of a call lie."""
        captured = concrete.graph.variables if concrete is not None else ()
        if not self._known or any(id(variable) not in self._seen for variable in captured):
            self.refresh()
        found = []
        for reference, name, kind, layer in self._known:
            variable = reference()
            found.append(None if variable is None else self._place_of(variable, name, kind, layer))
        for position, tensor in enumerate(inputs):
            if isinstance(tensor, tf.Tensor):
                found.append(_place(tensor, f"argument {position}", "input", None))
        return tuple(place for place in found if place is not None)

    def _place_of(self, variable: Any, name: str, kind: str, layer: str | None) -> Place | None:
        key = id(variable.handle)
        if key not in self._copied:
            # The second read shares the first one's memory, if they share the variable's.
            first, second = _value(variable), _value(variable)
            address = None if first is None else address_of(first)
            if not address:
                return None
            if address == address_of(second):
                self._last[key] = address
                return _place(first, name, kind, layer)
            self._copied.add(key)
        if not variable.shape.is_fully_defined():
            return None
        shape, dtype = tuple(variable.shape.as_list()), variable.dtype
        address = self._last.get(key, NOWHERE_KNOWN)
        return Place(address, math.prod(shape) * dtype.size, name, kind, layer, dtype.name, shape)

    def everything(self) -> tuple[Place, ...]:
        """Where all variables lie that exist now."""
        self.refresh()
        return self.places(None, ())


def described(variables: list[Any], owners: list[Any]) -> Iterator[tuple[Any, str, str, str | None]]:
    """Each variable with its name, kind and layer."""
    kinds = variable_kinds([owner for owner in owners if getattr(owner, "built", True)], variables)
    layers = layer_names(owners)
    rows = [(variable, *kinds[id(variable.handle)]) for variable in variables]
    weights, slots = ([path for _, kind, path in rows if kind == each] for each in ("weights", "optimizer"))
    slot_owners = find_slot_owners(slots, weights, layers) if layers else {}
    for variable, kind, path in rows:
        layer = slot_owners.get(path) if kind == "optimizer" else find_owner(path, layers) if layers else None
        yield variable, path, kind, layer


def _value(variable: Any) -> Any:
    try:
        return gen_resource_variable_ops.read_variable_op(variable.handle, variable.dtype)
    except tf.errors.OpError:
        # It has no value yet.
        return None


def _place(tensor: Any, name: str, kind: str, layer: str | None) -> Place | None:
    address = None if tensor is None else address_of(tensor)
    if not address:
        return None
    shape = tuple(tensor.shape.as_list())
    return Place(address, math.prod(shape) * tensor.dtype.size, name, kind, layer, tensor.dtype.name, shape)
