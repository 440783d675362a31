"""Whose memory an address is: the variables and the arguments that Python knows of."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.eager import context, execute
from tensorflow.python.framework.ops import EagerTensor
from tensorflow.python.ops import gen_resource_variable_ops
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from lowtide.run.record import NOWHERE_KNOWN, Place
from lowtide.tf.references.gc_objects import instances_of
from lowtide.tf.references.holders import address_of, kept_tensors
from lowtide.tf.trace.keras_models import layer_names, variable_kinds
from lowtide.tf.trace.trace import without_garbage_collection
from lowtide.tide.layers import find_owner, find_slot_owners


def live_objects() -> tuple[list[Any], list[Any]]:
    """The variables of this process, and the Keras layers and optimizers that may own them."""
    found = instances_of(BaseResourceVariable, keras.Layer, keras.optimizers.Optimizer)
    variables = [each for each in found if issubclass(type(each), BaseResourceVariable)]
    return variables, [each for each in found if not issubclass(type(each), BaseResourceVariable)]


# Larger variables are read one by one.
_LARGEST_TOGETHER = 1 << 20
# TensorFlow takes as long as for several looks to make the op for reading them together; only who looks often gains.
_LOOKS_ONE_BY_ONE = 2


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
        self._places: dict[int, Any] = {}
        """What was said of each variable last, by the identity of its handle."""

        self._looks = 0
        """How often these variables were looked at."""

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
        self._places.clear()
        self._looks = 0

    def look_anew(self) -> None:
        """Time has passed: reads that shared a variable's memory may be copies now."""
        self._shared.clear()

    def places(self, captured: Iterable[Any], inputs: Iterable[Any]) -> tuple[Place, ...]:
        """Where all variables lie, among them those that a call captured, and the call's arguments."""
        if not self._known or any(id(variable) not in self._seen for variable in captured):
            self.refresh()
        self._looks += 1
        living = [(variable, about) for reference, *about in self._known if (variable := reference()) is not None]
        variables = [variable for variable, _ in living]
        # A session may run it inside a graph of the script's.
        with context.eager_mode(), without_garbage_collection():
            first = self._read_together(variables)
            second = self._read_together([each for each in variables if id(each.handle) not in self._shared])
            found = [self._place_of(variable, about, first, second) for variable, about in living]
            # As many tensors would set the collector off, which takes longer than all the rest.
            first = second = {}
        for position, tensor in enumerate(inputs):
            if isinstance(tensor, tf.Tensor):
                found.append(_place(tensor, f"argument {position}", "input", None))
        return tuple(place for place in found if place is not None)

    def _read_together(self, variables: list[Any]) -> dict[int, Any]:
        """The values of variables that were read before, by the identity of the handle: one op for all.

        Large ones are left out: should they be copies by now, they had better not be there at the same time.
        """
        small = []
        for variable in variables if self._looks > _LOOKS_ONE_BY_ONE else ():
            place = self._places.get(id(variable.handle))
            if place is not None and place.bytes <= _LARGEST_TOGETHER and id(variable.handle) not in self._copied:
                small.append((variable.handle, variable.dtype.as_datatype_enum))
        return _values(small) if small else {}

    def _place_of(self, variable: Any, about: list[Any], first: dict[int, Any], second: dict[int, Any]) -> Place | None:
        """A variable's place; `about` are its name, kind and layer, `first` and `second` what was read together."""
        key = id(variable.handle)
        if key not in self._copied:
            value = first[key] if key in first else _value(variable)
            address = None if value is None else address_of(value)
            if not address:
                return None
            # A second read shares the first one's memory, if they share the variable's.
            if key in self._shared or address == address_of(second[key] if key in second else _value(variable)):
                self._shared.add(key)
                self._last[key] = address
                place = self._places.get(key)
                if place is None or place.address != address:
                    place = self._places[key] = _place(value, about[0], about[1], about[2], address)
                return place
            self._copied.add(key)
        name, kind, layer = about
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


def _values(variables: list[tuple[Any, int]]) -> dict[int, Any]:
    """The values of some variables, given by handle and type, by the identity of the handle."""
    handles, types = zip(*variables, strict=True)
    attributes = ("N", len(handles), "dtypes", types)
    try:
        read = execute.execute(b"_ReadVariablesOp", len(handles), list(handles), attributes, context.context())
    except (tf.errors.OpError, AttributeError, TypeError, ValueError):
        # One that is gone or on another device, or a TensorFlow without this op of its own: one by one, then.
        return {}
    return {id(handle): value for handle, value in zip(handles, read, strict=True)}


def _place(tensor: Any, name: str, kind: str, layer: str | None, address: int | None = None) -> Place | None:
    address = address_of(tensor) if address is None else address
    if not address:
        return None
    shape = tuple(tensor.shape.as_list())
    return Place(address, math.prod(shape) * tensor.dtype.size, name, kind, layer, tensor.dtype.name, shape)
