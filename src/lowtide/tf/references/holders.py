"""Tensors and variables that are alive in Python, and what holds them."""

from __future__ import annotations

import contextlib
import ctypes
import math
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from lowtide.tf.references.gc_objects import instances_of
from lowtide.tf.references.half_made import without_half_made
from lowtide.tf.references.reference_paths import ObjectHolder
from lowtide.tf.references.referrers import holders_of

# TensorFlow aborts the process if it is asked for the address of these.
_WITHOUT_ADDRESS = frozenset((tf.resource, tf.variant, tf.string))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """A tensor or variable that is alive, its address, and what holds it.

    `created` is a number that grows in the order of creation. `root` is the holder without the path below it.
    """

    bytes: int
    dtype: str
    shape: tuple[int, ...]
    address: int | None
    holder: str
    source: str | None
    created: int
    bounded: bool = False
    root: str = ""


def kept_tensors(min_bytes: int = 0, *, created_after: int | None = None, addresses: bool = True) -> list[KeptTensor]:
    """Return the eager tensors that are alive and hold at least `min_bytes`, the largest first.

    Handles of variables are left out. The search for holders takes some tenths of a second, however many tensors
    there are.
    """
    # The first tensor of a process has the number 0.
    tensors = [
        each
        for each in live_tensors()
        if (created_after is None or each._id > created_after) and tensor_bytes(each) >= min_bytes
    ]
    tensors.sort(key=lambda each: (-tensor_bytes(each), each._id))
    return [
        _kept(tensor, tensor_bytes(tensor), tensor._id, holder, address_of(tensor) if addresses else None)
        for tensor, holder in zip(tensors, holders_of(tensors), strict=True)
    ]


def kept_variables(created_after: int = 0) -> list[KeptTensor]:
    """Return the variables that are alive in Python and were created after a certain tensor."""
    variables = [each for each in live_variables() if each.handle._id > created_after]
    return [
        _kept(variable, variable_bytes(variable.handle), variable.handle._id, holder)
        for variable, holder in zip(variables, holders_of(variables), strict=True)
    ]


def live_variables() -> list[Any]:
    """All variables whose value the eager runtime holds."""
    return [
        each for each in instances_of(BaseResourceVariable) if type(getattr(each, "_handle", None)) is ops.EagerTensor
    ]


def live_tensors() -> list[Any]:
    """All eager tensors with a value that Python's garbage collector tracks."""
    tensors = without_half_made(instances_of(ops.EagerTensor))
    return [each for each in tensors if each.dtype not in (tf.resource, tf.variant)]


def tensor_bytes(tensor: Any) -> int:
    return int(tensor.shape.num_elements() or 0) * int(tensor.dtype.size)


def variable_bytes(handle: Any) -> int:
    """The bytes of the variable behind a handle, from its shape."""
    data = getattr(handle, "_handle_data", None)
    return sum(
        math.prod(max(dimension.size, 0) for dimension in part.shape.dim) * int(tf.as_dtype(part.dtype).size)
        for part in getattr(data, "shape_and_type", ())
    )


def _kept(tensor: Any, size: int, created: int, holder: ObjectHolder, address: int | None = None) -> KeptTensor:
    shape = tuple(tensor.shape)
    text, source = holder.text, holder.source
    return KeptTensor(size, tensor.dtype.name, shape, address, text, source, created, holder.bounded, holder.root)


def address_of(tensor: Any) -> int | None:
    """The address of a tensor. The capsule is freed at once: while it exists TensorFlow copies a variable on write."""
    if tensor.dtype in _WITHOUT_ADDRESS:
        return None
    with contextlib.suppress(Exception):
        # The first field of a DLManagedTensor is its tensor, whose first field is the address of the data.
        capsule = tf.experimental.dlpack.to_dlpack(tensor)
        return ctypes.c_void_p.from_address(_pointer_of(capsule, b"dltensor")).value
    return None
