"""The user's own source line behind a node of the executed graph."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

# Grappler puts what it makes under its own names; behind them stands the node it was made from.
_GRAPPLER = re.compile(r"^(?:ConstantFolding|ArithmeticOptimizer|LoopOptimizer|Remapper)/(?:\w+_)?")
_LIBRARIES = tuple(
    f"{os.sep}{name}{os.sep}" for name in ("tensorflow", "keras", "lowtide", "site-packages", "dist-packages")
)


def source_finder(concrete: Any) -> Callable[[str], str | None]:
    """A function from node names to "file.py:line", the innermost frame that is nobody's library."""

    def find(name: str) -> str | None:
        for candidate in (name, _GRAPPLER.sub("", name), name.rpartition("-")[0]):
            operation = _operation(concrete.graph, candidate)
            if operation is not None:
                return _user_line(operation)
        return None

    return find


def _operation(graph: Any, name: str) -> Any:
    if not name:
        return None
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None


def _user_line(operation: Any) -> str | None:
    for frame in reversed(list(operation.traceback or ())):
        filename = frame.filename
        if not filename.startswith("<") and not any(library in filename for library in _LIBRARIES):
            return f"{os.path.basename(filename)}:{frame.lineno}"
    return None
