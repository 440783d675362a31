"""The objects that Python's collector keeps account of, by their class."""

from __future__ import annotations

import gc
from typing import Any


def instances_of(*kinds: type) -> list[Any]:
    """Return all living instances of these classes and their subclasses.

    `isinstance` would ask some objects for their `__class__`, and a proxy may answer by importing a module or raising.
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
