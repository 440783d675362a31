"""References to objects that have a name in the user's program; a search for the holder of an object ends there."""

from __future__ import annotations

import linecache
import os
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lowtide.tf.trace.source_lines import is_lowtide_file, is_user_file

# The cells of a notebook are the user's code, though no such files exist.
_CELL = re.compile(r"<ipython-input|.*ipykernel")
_OPTIMIZED = 0x1  # code of a function, whose local variables are not in a dictionary


@dataclass(frozen=True, slots=True)
class ObjectHolder:
    """What holds an object: a description, the line that assigns it, and whether the container's size is limited."""

    text: str
    source: str | None = None
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class NamedReference:
    """A global or local variable, attribute or closure. `line` is used if no line that assigns it is found."""

    kind: str
    name: str
    owner: str
    filename: str | None = None
    lines: tuple[int, int | None] = (1, None)
    line: str | None = None

    def holder(self, path: str, bounded: bool) -> ObjectHolder:
        """The holder that this reference and a path below it describe: `trainer` and `.history["loss"]`."""
        full = (self.name + path).removeprefix(".")
        names = re.findall(r"(?:^|\.)(\w+)", full)
        lines = (assignment_line(self.filename, name, self.lines) for name in reversed(names))
        return ObjectHolder(
            f"{self.kind} `{full}` of {self.owner}", next((line for line in lines if line), self.line), bounded
        )


_ADDING = r"(?:\[[^\]]*\])*\s*(?:\.(?:append|appendleft|extend|add|insert|update|setdefault)\b|\+=|\[[^\]]*\]\s*=(?!=))"
# An assignment, except of an empty container.
_SETTING = r"\s*(?::[^=]*)?=(?!=)(?!\s*(?:\[\]|\{\}|None|\w+\(\))\s*$)"


def assignment_line(filename: str | None, name: str, lines: tuple[int, int | None] = (1, None)) -> str | None:
    """The line of a file, within a range of lines, that assigns or adds to `name`; None if there is none."""
    if filename is None:
        return None
    first, last = lines
    texts = list(enumerate(linecache.getlines(filename)[first - 1 : last], start=first))
    for ending in (_ADDING, _SETTING):
        pattern = re.compile(rf"\b{re.escape(name)}\b{ending}")
        for number, line in texts:
            if pattern.search(line):
                return f"{os.path.basename(filename)}:{number}"
    return None


def local_references() -> dict[int, NamedReference]:
    """The local variables of all running functions except lowtide's, by the identity of the value; innermost first."""
    found: dict[int, NamedReference] = {}
    for frame in _frames():
        values = locals_of(frame)
        at_module_level = frame.f_code.co_name == "<module>"
        for name, value in values.items():
            if not isinstance(value, (types.ModuleType, type, types.FunctionType)) and not name.startswith("__"):
                reference = global_reference(values, name, frame) if at_module_level else local_reference(frame, name)
                found.setdefault(id(value), reference)
    return found


def locals_of(frame: types.FrameType) -> dict[str, Any]:
    """The local variables of a frame, without keeping them alive in it."""
    values = frame.f_locals
    found = dict(values)
    if frame.f_code.co_flags & _OPTIMIZED and sys.version_info < (3, 13) and sys.gettrace() is None:
        # Before Python 3.13 the frame keeps this copy, and so all values in it.
        values.clear()
    return found


def _frames() -> Iterator[types.FrameType]:
    for frame in sys._current_frames().values():
        here: types.FrameType | None = frame
        while here is not None:
            if not is_lowtide_file(here.f_code.co_filename):
                yield here
            here = here.f_back


def _lines_of(code: types.CodeType) -> tuple[int, int]:
    return code.co_firstlineno, max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno)


def local_reference(frame: types.FrameType, name: str | None) -> NamedReference:
    code = frame.f_code
    if not is_user_file(code.co_filename) and not _CELL.match(code.co_filename):
        return NamedReference("local", str(name), f"{code.co_name} in {os.path.basename(code.co_filename)}")
    line = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
    return NamedReference("local", str(name), code.co_name, code.co_filename, _lines_of(code), line)


def global_reference(values: dict[str, Any], name: str | None, frame: types.FrameType | None = None) -> NamedReference:
    filename = values.get("__file__") or (frame.f_code.co_filename if frame is not None else None)
    owner = os.path.basename(filename) if filename else str(values.get("__name__", "?"))
    return NamedReference("global", str(name), owner, filename)


def generator_reference(generator: types.GeneratorType, child: Any) -> NamedReference:
    code = generator.gi_code
    name = key_of(locals_of(generator.gi_frame), child) if generator.gi_frame else None
    return NamedReference("local", str(name), f"generator {code.co_name}", code.co_filename, _lines_of(code))


def function_reference(function: types.FunctionType, child: Any) -> NamedReference:
    """How a function holds a value: in its closure, its defaults, or an attribute."""
    code = function.__code__
    line = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    owner = f"function {function.__qualname__}"
    if child is function.__closure__:
        return NamedReference("closure", "", owner, line=line)
    return NamedReference("default" if child is function.__defaults__ else "attribute", "", owner, line=line)


def attribute_reference(holder: Any, child: Any) -> NamedReference:
    # If the child is the instance's dictionary, the path below it gives the name.
    name = "" if getattr(holder, "__dict__", None) is child else key_of(attributes_of(holder), child) or "?"
    filename = getattr(sys.modules.get(type(holder).__module__), "__file__", None)
    return NamedReference("attribute", name, type(holder).__qualname__, filename)


def is_users_instance(holder: Any) -> bool:
    module = type(holder).__module__
    if module == "__main__":
        return True
    filename = getattr(sys.modules.get(module), "__file__", None)
    return filename is not None and is_user_file(filename)


def attributes_of(holder: Any) -> dict[str, Any]:
    """The attributes of an instance, including those in slots."""
    found = dict(getattr(holder, "__dict__", None) or {})
    for kind in type(holder).__mro__:
        for name, descriptor in vars(kind).items():
            if isinstance(descriptor, types.MemberDescriptorType):
                try:
                    found[name] = descriptor.__get__(holder, kind)
                except AttributeError:
                    continue
    return found


def key_of(values: Any, child: Any) -> Any:
    return next((key for key, value in list(values.items()) if value is child), None)
