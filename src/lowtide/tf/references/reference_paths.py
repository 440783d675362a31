"""Places in a program that have a name: where a search for the holder of an object ends."""

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

# What a notebook runs is the user's own, though no file of that name is there.
_CELL = re.compile(r"<ipython-input|.*ipykernel")
_OPTIMIZED = 0x1  # a function's code, whose locals are no dictionary


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds an object: in words, the line that fills the place, and whether it has room for so many and no more."""

    text: str
    source: str | None = None
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A name: a global, a local, an attribute, a closure. `line` is used where no line that fills it is found."""

    kind: str
    name: str
    owner: str
    filename: str | None = None
    lines: tuple[int, int | None] = (1, None)
    line: str | None = None

    def holder(self, path: str, bounded: bool) -> Holder:
        """This place and what lies below it: `trainer` with the path `.history["loss"]`."""
        full = (self.name + path).removeprefix(".")
        names = re.findall(r"(?:^|\.)(\w+)", full)
        filled = (filled_at(self.filename, name, self.lines) for name in reversed(names))
        return Holder(
            f"{self.kind} `{full}` of {self.owner}", next((line for line in filled if line), self.line), bounded
        )


_ADDING = r"(?:\[[^\]]*\])*\s*(?:\.(?:append|appendleft|extend|add|insert|update|setdefault)\b|\+=|\[[^\]]*\]\s*=(?!=))"
# An assignment, but none of an empty container.
_SETTING = r"\s*(?::[^=]*)?=(?!=)(?!\s*(?:\[\]|\{\}|None|\w+\(\))\s*$)"


def filled_at(filename: str | None, name: str, lines: tuple[int, int | None] = (1, None)) -> str | None:
    """The line of a file, between two, that puts something into what is called `name`, if it is there to be read."""
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


def places_of_locals() -> dict[int, Place]:
    """The locals of all running functions that are not lowtide's, by identity; the innermost function counts."""
    found: dict[int, Place] = {}
    for frame in _frames():
        values = locals_of(frame)
        at_module_level = frame.f_code.co_name == "<module>"
        for name, value in values.items():
            if not isinstance(value, (types.ModuleType, type, types.FunctionType)) and not name.startswith("__"):
                place = global_place(values, name, frame) if at_module_level else local_place(frame, name)
                found.setdefault(id(value), place)
    return found


def locals_of(frame: types.FrameType) -> dict[str, Any]:
    """The locals of a frame, without leaving a trace in it."""
    values = frame.f_locals
    found = dict(values)
    if frame.f_code.co_flags & _OPTIMIZED and sys.version_info < (3, 13) and sys.gettrace() is None:
        # Before Python 3.13 this is a copy that the frame keeps, and with it all that it names.
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


def local_place(frame: types.FrameType, name: str | None) -> Place:
    code = frame.f_code
    if not is_user_file(code.co_filename) and not _CELL.match(code.co_filename):
        return Place("local", str(name), f"{code.co_name} in {os.path.basename(code.co_filename)}")
    line = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
    return Place("local", str(name), code.co_name, code.co_filename, _lines_of(code), line)


def global_place(values: dict[str, Any], name: str | None, frame: types.FrameType | None = None) -> Place:
    filename = values.get("__file__") or (frame.f_code.co_filename if frame is not None else None)
    owner = os.path.basename(filename) if filename else str(values.get("__name__", "?"))
    return Place("global", str(name), owner, filename)


def generator_place(generator: types.GeneratorType, child: Any) -> Place:
    code = generator.gi_code
    name = key_of(locals_of(generator.gi_frame), child) if generator.gi_frame else None
    return Place("local", str(name), f"generator {code.co_name}", code.co_filename, _lines_of(code))


def function_place(function: types.FunctionType, child: Any) -> Place:
    """How a function holds a value: in a closure, in its defaults, or as an attribute of its own."""
    code = function.__code__
    line = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    owner = f"function {function.__qualname__}"
    if child is function.__closure__:
        return Place("closure", "", owner, line=line)
    return Place("default" if child is function.__defaults__ else "attribute", "", owner, line=line)


def attribute_place(holder: Any, child: Any) -> Place:
    # Where the child is the instance's dictionary, the name comes from the path below it.
    name = "" if getattr(holder, "__dict__", None) is child else key_of(attributes_of(holder), child) or "?"
    filename = getattr(sys.modules.get(type(holder).__module__), "__file__", None)
    return Place("attribute", name, type(holder).__qualname__, filename)


def is_users_instance(holder: Any) -> bool:
    module = type(holder).__module__
    if module == "__main__":
        return True
    filename = getattr(sys.modules.get(module), "__file__", None)
    return filename is not None and is_user_file(filename)


def attributes_of(holder: Any) -> dict[str, Any]:
    """An instance's attributes, those in slots included."""
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
