"""NumPy arrays that are alive in Python, and what holds them.

Python's garbage collector does not track arrays, nor tuples and dictionaries that hold nothing but arrays. They are
found as referents of the objects that it tracks, and in the local variables of running functions.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from lowtide.tf.references.reference_paths import is_users_class, locals_of, running_frames
from lowtide.tf.references.referrers import holders_of
from lowtide.tf.trace.source_lines import is_user_file
from lowtide.tide.owner import Owner

# Containers that the collector may not track.
_UNTRACKED = (tuple, dict)
_MAX_NESTING = 3
# Longer lists and dictionaries hold many small objects.
_MAX_ENTRIES = 1000
# The function of TensorFlow that copies a value from Python to a tensor, and the name of its argument.
_COPYING, _COPIED = "convert_to_eager_tensor", "value"


def kept_arrays(min_bytes: int, *, everywhere: bool = True) -> tuple[Owner, ...]:
    """Return the NumPy arrays that hold at least `min_bytes`, each named after its holder, the largest first.

    Arrays in files (`numpy.memmap`) and arrays that share the memory of a tensor are left out. To search everywhere
    takes tenths of a second; otherwise only the variables of running functions, and what they contain, are searched.
    """
    found: dict[int, tuple[np.ndarray, Any]] = {}
    for array, reference in _referenced_arrays(min_bytes, everywhere):
        root = _root(array)
        if root is not None and root.nbytes >= min_bytes and (id(root) not in found or array is root):
            found[id(root)] = (root, reference)
    holders = holders_of([reference for _, reference in found.values()], ignore=[id(found)])
    owners = [
        Owner(holder.text, None, None, None, root.dtype.name, root.shape, root.nbytes, source=holder.source)
        for (root, _), holder in zip(found.values(), holders, strict=True)
    ]
    return tuple(sorted(owners, key=lambda owner: -owner.bytes))


def array_being_copied() -> np.ndarray | None:
    """Return the array that the main thread is copying to a tensor; None if it is doing something else."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_name == _COPYING:
            value = locals_of(frame).get(_COPIED)
            return value if isinstance(value, np.ndarray) else None
        frame = frame.f_back
    return None


def _referenced_arrays(min_bytes: int, everywhere: bool) -> list[tuple[np.ndarray, Any]]:
    """Return arrays with the object to search the holder of: the array, or the untracked container that has it."""
    # Asked for first, so that what this function itself refers to is not found.
    referents = gc.get_referents(*gc.get_objects()) if everywhere else []
    found: list[tuple[np.ndarray, Any]] = []
    seen: set[int] = set()

    def take(objects: Iterable[Any], container: Any, nesting: int) -> None:
        for each in objects:
            kind = type(each)
            if kind is np.ndarray:
                if each.nbytes >= min_bytes or each.base is not None:
                    found.append((each, each if container is None else container))
            elif kind in _UNTRACKED and nesting < _MAX_NESTING and id(each) not in seen and not gc.is_tracked(each):
                seen.add(id(each))
                take(gc.get_referents(each), each if container is None else container, nesting + 1)

    for frame in running_frames():
        # What only a library's function refers to exists for a moment.
        if everywhere or is_user_file(frame.f_code.co_filename):
            values = locals_of(frame).values()
            take(values, None, 0)
            if not everywhere:
                take(gc.get_referents(*filter(_may_hold_arrays, values)), None, 0)
    take(referents, None, 0)
    return found


def _may_hold_arrays(value: Any) -> bool:
    if isinstance(value, (list, dict)):
        return len(value) <= _MAX_ENTRIES
    return is_users_class(type(value))


def _root(array: np.ndarray) -> np.ndarray | None:
    """Return the array that owns the memory of a view; None if it is not an array's."""
    base: Any = array
    while type(base) is np.ndarray and base.base is not None:
        base = base.base
    return base if type(base) is np.ndarray else None
