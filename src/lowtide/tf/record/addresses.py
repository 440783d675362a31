"""The addresses of the variables and arguments that Python knows, and their owners."""

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

from lowtide.tf.references.gc_objects import instances_of
from lowtide.tf.references.holders import address_of, kept_tensors
from lowtide.tf.references.referrers import UNKNOWN
from lowtide.tf.trace.keras_models import layer_names, variable_kinds
from lowtide.tf.trace.trace import without_garbage_collection
from lowtide.tide.layers import find_variable_layers
from lowtide.tide.owner import Owner


def live_objects() -> tuple[list[Any], list[Any]]:
    """The variables of this process, and the Keras layers and optimizers of which some own them."""
    found = instances_of(BaseResourceVariable, keras.Layer, keras.optimizers.Optimizer)
    variables = [each for each in found if issubclass(type(each), BaseResourceVariable)]
    return variables, [each for each in found if not issubclass(type(each), BaseResourceVariable)]


# Variables up to this size are read together, by one op.
_MAX_BYTES_TOGETHER = 1 << 20
# Creating that op takes as long as reading the variables one by one several times, so the first lookups do without.
_SINGLE_LOOKUPS = 2


class AddressLookup:
    """Finds the addresses of variables repeatedly: an update may move a variable."""

    def __init__(self) -> None:
        self.layers: frozenset[str] = frozenset()
        self.kinds: dict[int, tuple[str, str]] = {}
        """Kind and name of each variable, by the identity of its handle."""
        self._known: list[tuple[weakref.ref[Any], str, str, str | None]] = []
        self._seen: set[int] = set()
        self._last: dict[int, int] = {}
        """The last known address of each variable, by the identity of its handle."""
        self._shared: set[int] = set()
        """Variables that were found to share their memory with their reads since the last refresh."""
        self._copied: set[int] = set()
        """Variables of which every read is a copy, after an update of single rows: they are not moved any more."""
        self._owners: dict[int, Any] = {}
        """The last result for each variable, by the identity of its handle."""
        self._lookups = 0
        """How often these variables were looked up."""
        self._layer_of_handle: dict[int, str] = {}
        """The layer of each variable, by the number of its handle."""

    def refresh(self) -> None:
        """Find the variables that exist now."""
        variables, owners = live_objects()
        self._known = [
            (weakref.ref(variable), name, kind, layer)
            for variable, name, kind, layer in _describe_variables(variables, owners)
        ]
        # A model may be deleted before its steps are inspected; the names of its layers are kept.
        self.layers |= layer_names(owners)
        self.kinds |= {
            id(variable.handle): (kind, name)
            for variable, (_, name, kind, _) in zip(variables, self._known, strict=True)
        }
        self._layer_of_handle = {
            variable.handle._id: layer
            for variable, (_, _, _, layer) in zip(variables, self._known, strict=True)
            if layer is not None and isinstance(variable.handle, EagerTensor)
        }
        self._seen = {id(variable) for variable in variables}
        self._shared.clear()
        self._owners.clear()
        self._lookups = 0

    def layer_of_handle(self, number: int) -> str | None:
        """The layer of the variable whose handle has this number."""
        return self._layer_of_handle.get(number)

    def forget_shared_reads(self) -> None:
        """Check again whether reads share the memory of variables: they may be copies now."""
        self._shared.clear()

    def owners(self, captured: Iterable[Any], inputs: Iterable[Any]) -> tuple[Owner, ...]:
        """All variables, including those that a call captured, and the call's arguments, with their addresses."""
        if not self._known or any(id(variable) not in self._seen for variable in captured):
            self.refresh()
        self._lookups += 1
        living = [
            (variable, (name, kind, layer))
            for reference, name, kind, layer in self._known
            if (variable := reference()) is not None
        ]
        variables = [variable for variable, _ in living]
        # The script may be inside of a graph that a session runs.
        with context.eager_mode(), without_garbage_collection():
            first = self._read_together(variables)
            second = self._read_together([each for each in variables if id(each.handle) not in self._shared])
            found = [self._find_owner(variable, about, first, second) for variable, about in living]
            # Freed before the garbage collector is enabled again: a collection would take longer than the lookup.
            first = second = {}
        for position, tensor in enumerate(inputs):
            address = address_of(tensor) if isinstance(tensor, tf.Tensor) else None
            if address:
                found.append(_describe_owner(tensor, f"argument {position}", "input", None, address))
        return tuple(owner for owner in found if owner is not None)

    def _read_together(self, variables: list[Any]) -> dict[int, Any]:
        """The values of variables that were read before, by the identity of the handle, read by one op.

        Large variables are left out: if their reads are copies now, the copies should not exist at the same time.
        """
        small = []
        for variable in variables if self._lookups > _SINGLE_LOOKUPS else ():
            owner = self._owners.get(id(variable.handle))
            if owner is not None and owner.bytes <= _MAX_BYTES_TOGETHER and id(variable.handle) not in self._copied:
                small.append((variable.handle, variable.dtype.as_datatype_enum))
        return _read_values(small) if small else {}

    def _find_owner(
        self, variable: Any, about: tuple[str, str, str | None], first: dict[int, Any], second: dict[int, Any]
    ) -> Owner | None:
        """Find a variable's address; `about` is its name, kind and layer, `first` and `second` values read before."""
        key = id(variable.handle)
        if key not in self._copied:
            value = first[key] if key in first else _read_value(variable)
            address = None if value is None else address_of(value)
            if not address:
                return None
            # Two reads have the same address if they share the variable's memory.
            if key in self._shared or address == address_of(second[key] if key in second else _read_value(variable)):
                self._shared.add(key)
                self._last[key] = address
                owner = self._owners.get(key)
                if owner is None or owner.address != address:
                    owner = self._owners[key] = _describe_owner(value, *about, address)
                return owner
            self._copied.add(key)
        return _describe_owner(variable, *about, self._last.get(key)) if variable.shape.is_fully_defined() else None

    def all_owners(self) -> tuple[Owner, ...]:
        """All variables that exist now, with their addresses."""
        self.refresh()
        return self.owners((), ())


# Smaller tensors that Python keeps do not explain why memory ran out.
_MIN_KEPT_BYTES = 4096


def kept_owners() -> tuple[Owner, ...]:
    """The tensors that Python keeps, with their addresses, each named after its holder; runs no op of TensorFlow.

    A tensor whose holder is not found is left out: the op that made it, or an earlier look, says more.
    """
    return tuple(
        Owner(each.holder, None, None, "other", each.dtype, each.shape, each.bytes, address=each.address)
        for each in kept_tensors(_MIN_KEPT_BYTES)
        if each.address is not None and each.holder != UNKNOWN.text
    )


def _describe_variables(variables: list[Any], owners: list[Any]) -> Iterator[tuple[Any, str, str, str | None]]:
    """Each variable with its name, kind and layer."""
    kinds = variable_kinds([owner for owner in owners if getattr(owner, "built", True)], variables)
    layers = layer_names(owners)
    rows = [(variable, *kinds[id(variable.handle)]) for variable in variables]
    found = find_variable_layers(((kind, path) for _, kind, path in rows), layers) if layers else {}
    for variable, kind, path in rows:
        yield variable, path, kind, found.get(path)


def _read_value(variable: Any) -> Any:
    if not isinstance(variable.handle, EagerTensor):
        # A variable of a graph, which only a session can read.
        return None
    try:
        return gen_resource_variable_ops.read_variable_op(variable.handle, variable.dtype)
    except tf.errors.OpError:
        # The variable has no value yet.
        return None


def _read_values(variables: list[tuple[Any, int]]) -> dict[int, Any]:
    """The values of variables, given as handle and type, by the identity of the handle; empty if reading fails."""
    handles, types = zip(*variables, strict=True)
    attributes = ("N", len(handles), "dtypes", types)
    try:
        read = execute.execute(b"_ReadVariablesOp", len(handles), list(handles), attributes, context.context())
    except (tf.errors.OpError, AttributeError, TypeError, ValueError):
        # A variable is deleted or on another device, or TensorFlow lacks this internal op: read them one by one.
        return {}
    return {id(handle): value for handle, value in zip(handles, read, strict=True)}


def _describe_owner(tensor: Any, name: str, kind: str, layer: str | None, address: int | None) -> Owner:
    """Describe a tensor or a variable whose shape is known."""
    shape, dtype = tuple(tensor.shape.as_list()), tensor.dtype
    return Owner(name, None, layer, kind, dtype.name, shape, math.prod(shape) * dtype.size, address=address)
