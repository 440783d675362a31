"""The objects that Python's garbage collector tracks, by class."""

from __future__ import annotations

import gc
from typing import Any


def instances_of(*kinds: type) -> list[Any]:
    """Return all living instances of these classes and their subclasses.

    `isinstance` reads the `__class__` of an object, and a proxy may then import a module or raise.
    """
    wanted: dict[type, bool] = {}
    found = []
    for each in gc.get_objects():
        kind = type(each)
        if kind not in wanted:
            wanted[kind] = any(parent in kinds for parent in type.mro(kind)) if kind is not type else False
        if wanted[kind]:
            found.append(each)
    return found
