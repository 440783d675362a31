"""Whose memory an address is: the variables and the arguments that Python knows of."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework.ops import EagerTensor
from tensorflow.python.ops import gen_resource_variable_ops
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from lowtide.run.record import NOWHERE_KNOWN, Place
from lowtide.tf.holders import address_of, kept_tensors
from lowtide.tf.models import layer_names, variable_kinds
from lowtide.tf.objects import instances_of
from lowtide.tide.layers import find_owner, find_slot_owners


def live_objects() -> tuple[list[Any], list[Any]]:
    """The variables of this process, and the Keras layers and optimizers that may own them."""
    found = instances_of(BaseResourceVariable, keras.Layer, keras.optimizers.Optimizer)
    variables = [each for each in found if issubclass(type(each), BaseResourceVariable)]
    return variables, [each for each in found if not issubclass(type(each), BaseResourceVariable)]


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
        self._shared: set[int] = set()
        """Variables whose reads share their memory, as far as is known since the last refresh."""
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
        self._shared.clear()

    def look_anew(self) -> None:
        """Time has passed: reads that shared a variable's memory may be copies now."""
        self._shared.clear()

    def places(self, captured: Iterable[Any], inputs: Iterable[Any]) -> tuple[Place, ...]:
        """Where all variables lie, among them those that a call captured, and the call's arguments."""
        if not self._known or any(id(variable) not in self._seen for variable in captured):
            self.refresh()
        found = []
        for reference, name, kind, layer in self._known:
            variable = reference()
            # A session may run it inside a graph of the script's.
            with context.eager_mode():
                found.append(None if variable is None else self._place_of(variable, name, kind, layer))
        for position, tensor in enumerate(inputs):
            if isinstance(tensor, tf.Tensor):
                found.append(_place(tensor, f"argument {position}", "input", None))
        return tuple(place for place in found if place is not None)

    def _place_of(self, variable: Any, name: str, kind: str, layer: str | None) -> Place | None:
        key = id(variable.handle)
        if key not in self._copied:
            value = _value(variable)
            address = None if value is None else address_of(value)
            if not address:
                return None
            # A second read shares the first one's memory, if they share the variable's.
            if key in self._shared or address == address_of(_value(variable)):
                self._shared.add(key)
                self._last[key] = address
                return _place(value, name, kind, layer, address)
            self._copied.add(key)
        if not variable.shape.is_fully_defined():
            return None
        shape, dtype = tuple(variable.shape.as_list()), variable.dtype
        address = self._last.get(key, NOWHERE_KNOWN)
        return Place(address, math.prod(shape) * dtype.size, name, kind, layer, dtype.name, shape)

    def everything(self) -> tuple[Place, ...]:
        """Where all variables lie that exist now."""
        self.refresh()
        return self.places((), ())


# Smaller tensors that Python keeps ran nobody out of memory.
_SMALLEST_KEPT = 4096


def kept_places() -> tuple[Place, ...]:
    """Where the tensors lie that Python keeps, each under the name of who keeps it; runs nothing of TensorFlow's."""
    return tuple(
        Place(each.address, each.bytes, each.holder, "other", None, each.dtype, each.shape)
        for each in kept_tensors(_SMALLEST_KEPT)
        if each.address is not None
    )


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
    if not isinstance(variable.handle, EagerTensor):
        # Only a session could read a variable of a graph.
        return None
    try:
        return gen_resource_variable_ops.read_variable_op(variable.handle, variable.dtype)
    except tf.errors.OpError:
        # It has no value yet.
        return None


def _place(tensor: Any, name: str, kind: str, layer: str | None, address: int | None = None) -> Place | None:
    address = address_of(tensor) if address is None else address
    if not address:
        return None
    shape = tuple(tensor.shape.as_list())
    return Place(address, math.prod(shape) * tensor.dtype.size, name, kind, layer, tensor.dtype.name, shape)
