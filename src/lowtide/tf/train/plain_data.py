"""Plain data in two files: `state.json`, and `arrays.npz` for the arrays in it. Reading them never runs code."""

from __future__ import annotations

import base64
import json
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError

SCHEMA_VERSION = 1
_STATE, _ARRAYS = "state.json", "arrays.npz"
_DICTIONARIES = (dict, OrderedDict, defaultdict, Counter)
# Of NumPy's types and those that other libraries add to them.
_ADDED_TYPE = 2


def save_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Write plain data to a folder."""
    packer = _Packer()
    packed = packer.pack(dict(state))
    content = {"schema_version": SCHEMA_VERSION, "state": packed}
    # Infinities and NaN are written as Python's own reader reads them.
    (folder / _STATE).write_text(json.dumps(content), encoding="utf-8")
    arrays: dict[str, Any] = {str(number): array for number, array in enumerate(packer.arrays)}
    np.savez(folder / _ARRAYS, **arrays)


def load_state(folder: Path) -> dict[str, Any]:
    """Return what `save_state` wrote, with equal types and values."""
    content = json.loads((folder / _STATE).read_text(encoding="utf-8"))
    if content["schema_version"] > SCHEMA_VERSION:
        raise LowtideError(
            "the checkpoint was written by a newer version of lowtide",
            given=f"{folder}, version {content['schema_version']}, and this one reads {SCHEMA_VERSION}",
            cure="install that version, or start a new run",
        )
    with np.load(folder / _ARRAYS, allow_pickle=False) as arrays:
        state: dict[str, Any] = _unpack(content["state"], arrays)
    return state


def plain_bytes(value: Any) -> int | None:
    """Return the bytes of the arrays in plain data; None if the value is not plain data."""
    packer = _Packer()
    try:
        packer.pack(value)
    except (TypeError, RecursionError):
        return None
    return sum(array.nbytes for array in packer.arrays)


class _Packer:
    """Turns plain data into what JSON can store; what it cannot store becomes {kind: content}."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def pack(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return self._pack_all(value)
        if kind in (tuple, set, frozenset):
            return {kind.__name__: self._pack_all(value)}
        if kind is deque:
            return {"deque": self._pack_all(value), "length": value.maxlen}
        if kind in _DICTIONARIES:
            return {"dict": [[self.pack(key), self.pack(each)] for key, each in value.items()]}
        if kind is bytes:
            return {"bytes": base64.b64encode(value).decode("ascii")}
        return self._pack_array(value)

    def _pack_all(self, values: Iterable[Any]) -> list[Any]:
        return [self.pack(value) for value in values]

    def _pack_array(self, value: Any) -> dict[str, Any]:
        if isinstance(value, np.generic):
            return {"scalar": self._add(np.asarray(value))}
        if type(value) is np.ndarray:
            return {"array": self._add(value)}
        if tf.is_tensor(value) and hasattr(value, "numpy"):
            return {"tensor": self._add(np.asarray(value.numpy()))}
        name = getattr(value, "__name__", "")
        for module in (keras.ops, np):
            # The comparison that a callback has chosen.
            if callable(value) and name and getattr(module, name, None) is value and not isinstance(value, type):
                return {"function": [module.__name__, name]}
        raise TypeError(f"{type(value).__name__} is not plain data")

    def _add(self, array: np.ndarray) -> dict[str, Any]:
        if array.dtype.hasobject or array.dtype.fields is not None:
            raise TypeError(f"arrays of {array.dtype} are not plain data")
        packed: dict[str, Any] = {"number": len(self.arrays)}
        if array.dtype.isbuiltin == _ADDED_TYPE:
            # NumPy reads bfloat16 back as bytes without a type.
            packed |= {"dtype": array.dtype.name, "shape": array.shape}
            array = np.frombuffer(array.tobytes(), np.uint8)
        self.arrays.append(array)
        return packed


def _unpack(packed: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(packed, list):
        return [_unpack(each, arrays) for each in packed]
    if not isinstance(packed, dict):
        return packed
    kind, content = next(iter(packed.items()))
    if kind == "dict":
        return {_unpack(key, arrays): _unpack(value, arrays) for key, value in content}
    if kind == "bytes":
        return base64.b64decode(content)
    if kind == "function":
        return getattr({"keras.ops": keras.ops, "numpy": np}[content[0]], content[1])
    if kind in ("array", "scalar", "tensor"):
        array = _array(content, arrays)
        return array[()] if kind == "scalar" else tf.constant(array) if kind == "tensor" else array
    members = _unpack(content, arrays)
    if kind == "deque":
        return deque(members, packed["length"])
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](members)


def _array(packed: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    array = arrays[str(packed["number"])]
    if "dtype" not in packed:
        return array
    return np.frombuffer(array.tobytes(), tf.as_dtype(packed["dtype"]).as_numpy_dtype).reshape(packed["shape"]).copy()
