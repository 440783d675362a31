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
# Keras and TensorFlow wrap their public functions to shorten tracebacks.
_WRAPPER = re.compile(r"(?:traceback_utils|util/dispatch|util/deprecation)\.py$")
# The variable in which such a function has the one that it wraps.
_WRAPPED = ("dispatch_target", "fn", "func")
_OPTIMIZED = 0x1  # code of a function, whose local variables are not in a dictionary


@dataclass(frozen=True, slots=True)
class ObjectHolder:
    """What holds an object: a description, the line that assigns it, and whether the container's size is limited.

    `root` describes the variable or attribute without the path below it: `logs` for `logs['loss']`.
    """

    text: str
    source: str | None = None
    bounded: bool = False
    root: str = ""


@dataclass(frozen=True, slots=True)
class NamedReference:
    """A global or local variable, attribute or closure. `line` is used if no line that assigns it is found.

    Variables of libraries have a `description` instead of a name, which the user does not know.
    """

    kind: str
    name: str
    owner: str
    filename: str | None = None
    lines: tuple[int, int | None] = (1, None)
    line: str | None = None
    description: str | None = None

    def holder(self, path: str, bounded: bool) -> ObjectHolder:
        """The holder that this reference and a path below it describe: `trainer` and `.history["loss"]`."""
        if self.description is not None:
            return ObjectHolder(self.description, self.line, bounded, self.description)
        full = _readable_path((self.name + path).removeprefix("."))
        names = re.findall(r"(?:^|\.)(\w+)", full)
        root = f"{self.kind} `{names[0]}` of {self.owner}" if names else f"{self.kind} of {self.owner}"
        text = f"{self.kind} `{full}` of {self.owner}" if full else root
        return ObjectHolder(text, self._line(names) or self.line, bounded, root)

    def _line(self, names: list[str]) -> str | None:
        """The line that assigns the last of these names for which there is one."""
        found = (assignment_line(self.filename, name, self.lines) for name in reversed(names))
        line = next((each for each in found if each), None)
        if line is None and self.kind == "attribute" and names:
            # A class may be filled from outside of its own lines.
            line = assignment_line(self.filename, names[0], prefix=r"\.")
        return line


# A longer path, such as that of a linked list, does not help to find the holder.
_MAX_PARTS = 4


def _readable_path(full: str) -> str:
    """Cut a path at an attribute that a library's object or a traceback has: `refs` for `refs._wrapped`."""
    parts = re.findall(r"^\w*|\.\w+|\[[^\]]*\]", full)
    foreign = (place for place, part in enumerate(parts) if place and part.startswith(("._", ".tb_", ".f_")))
    end = next(foreign, len(parts))
    return "".join(parts[:1] if end > _MAX_PARTS else parts[:end])


_ADDING = r"(?:\[[^\]]*\])*\s*(?:\.(?:append|appendleft|extend|add|insert|update|setdefault)\b|\+=|\[[^\]]*\]\s*=(?!=))"
# The targets before and after a name that is assigned together with others: `x, y = load()`.
_BEFORE, _AFTER = r"^\s*\(?(?:[\w.]+\s*,\s*)*", r"(?:\s*,\s*[\w.*]+)+\s*,?\s*\)?\s*=(?!=)"
# An assignment, except of an empty container; most other calls without arguments return data, such as `x = load()`.
_EMPTY = r"\[\]|\{\}|\(\)|None|(?:\w+\.)?(?:list|dict|set|tuple|deque|defaultdict|OrderedDict|Counter|Queue)\(\)"
_SETTING = rf"\s*(?::[^=]*)?=(?!=)(?!\s*(?:{_EMPTY})\s*$)"


def assignment_line(
    filename: str | None, name: str, lines: tuple[int, int | None] = (1, None), prefix: str = r"\b"
) -> str | None:
    """The line of a file, within a range of lines, that assigns or adds to `name`; None if there is none."""
    if filename is None:
        return None
    first, last = lines
    texts = list(enumerate(linecache.getlines(filename)[first - 1 : last], start=first))
    for before, ending in ((prefix, _ADDING), (prefix, _SETTING), (_BEFORE + prefix, _AFTER)):
        pattern = re.compile(rf"{before}{re.escape(name)}\b{ending}")
        for number, line in texts:
            if pattern.search(line):
                return f"{os.path.basename(filename)}:{number}"
    return None


def local_references() -> dict[int, NamedReference]:
    """The local variables of all running functions except lowtide's, by the identity of the value; innermost first."""
    found: dict[int, NamedReference] = {}
    for frame in running_frames():
        values = locals_of(frame)
        at_module_level = frame.f_code.co_name == "<module>"
        for name, value in values.items():
            if not isinstance(value, (types.ModuleType, type, types.FunctionType)) and not name.startswith("__"):
                reference = global_reference(values, name, frame) if at_module_level else local_reference(frame, name)
                known = found.get(id(value))
                # Functions of libraries receive the user's objects as arguments; the user's own name says more.
                if known is None or (known.filename is None and reference.filename is not None):
                    found[id(value)] = reference
    return found


def locals_of(frame: types.FrameType) -> dict[str, Any]:
    """The local variables of a frame, without keeping them alive in it."""
    values = frame.f_locals
    found = dict(values)
    if frame.f_code.co_flags & _OPTIMIZED and sys.version_info < (3, 13) and sys.gettrace() is None:
        # Before Python 3.13 the frame keeps this copy, and so all values in it.
        values.clear()
    return found


def running_frames() -> Iterator[types.FrameType]:
    """Yield the frames of all threads except lowtide's own, innermost first."""
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
    if not _is_users_code(code):
        return _library_reference(frame, str(name))
    line = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
    return NamedReference("local", str(name), code.co_name, code.co_filename, _lines_of(code), line)


def _is_users_code(code: types.CodeType) -> bool:
    return is_user_file(code.co_filename) or _CELL.match(code.co_filename) is not None


def _library_reference(frame: types.FrameType, name: str) -> NamedReference:
    """A local variable of a library's function, described by the call in the user's program that led to it."""
    here, outer = frame, frame.f_back
    while outer is not None and not _is_users_code(outer.f_code):
        here, outer = (here if _WRAPPER.search(outer.f_code.co_filename) else outer), outer.f_back
    call, line = f"`{_name_of(here)}`", None
    if outer is not None:
        line = f"{os.path.basename(outer.f_code.co_filename)}:{outer.f_lineno}"
    else:
        call = f"`{frame.f_code.co_name}` in {os.path.basename(frame.f_code.co_filename)}"
    what = "the dataset iterator of" if "iterator" in name or "data_handler" in name else "the running call of"
    return NamedReference("local", name, call, line=line, description=f"{what} {call}")


def _name_of(frame: types.FrameType) -> str:
    """The name of a frame's function; of a decorator's wrapper, that of the function it wraps."""
    if _WRAPPER.search(frame.f_code.co_filename):
        values = locals_of(frame)
        for name in _WRAPPED:
            public = getattr(values.get(name), "_tf_api_names", None)
            if public or hasattr(values.get(name), "__name__"):
                return f"tf.{public[0]}" if public else str(values[name].__name__)
    return frame.f_code.co_name


def global_reference(values: dict[str, Any], name: str | None, frame: types.FrameType | None = None) -> NamedReference:
    # Python deletes `__file__` of the script when it has run, and keeps its loader.
    filename = values.get("__file__") or getattr(values.get("__loader__"), "path", None)
    filename = filename or (frame.f_code.co_filename if frame is not None else None)
    module = str(values.get("__name__", "?"))
    owner = os.path.basename(filename) if filename and is_user_file(filename) else module
    return NamedReference("global", str(name), owner, filename)


def generator_reference(generator: types.GeneratorType, child: Any) -> NamedReference:
    code = generator.gi_code
    name = key_of(locals_of(generator.gi_frame), child) if generator.gi_frame else None
    return NamedReference("local", str(name), f"generator {code.co_name}", code.co_filename, _lines_of(code))


def function_reference(function: types.FunctionType, child: Any) -> NamedReference:
    """How a function holds a value: in its closure, its defaults, or an attribute."""
    code = function.__code__
    line = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    owner = f"function {_plain_name(function)}"
    if child is function.__closure__:
        return NamedReference("closure", "", owner, line=line)
    return NamedReference("default" if child is function.__defaults__ else "attribute", "", owner, line=line)


def attribute_reference(holder: Any, child: Any) -> NamedReference:
    # If the child is the instance's dictionary, the path below it gives the name.
    name = "" if getattr(holder, "__dict__", None) is child else key_of(attributes_of(holder), child) or "?"
    filename = getattr(sys.modules.get(type(holder).__module__), "__file__", None)
    return NamedReference("attribute", name, _plain_name(type(holder)), filename, _lines_of_class(type(holder)))


def _plain_name(named: Any) -> str:
    """The qualified name of a class or function, without the marks of functions that it is defined in."""
    return str(named.__qualname__).replace(".<locals>", "")


def _lines_of_class(kind: type) -> tuple[int, int | None]:
    """The lines from the first method of a class to its last."""
    codes = [each.__code__ for each in vars(kind).values() if isinstance(each, types.FunctionType)]
    ranges = [_lines_of(code) for code in codes if is_user_file(code.co_filename)]
    return (min(first for first, _ in ranges), max(last for _, last in ranges)) if ranges else (1, None)


def class_reference(kind: type) -> NamedReference:
    """An attribute of a class itself, which all of its instances share."""
    filename = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return NamedReference("attribute", "", f"class {_plain_name(kind)}", filename, _lines_of_class(kind))


def is_users_class(kind: type) -> bool:
    module = kind.__module__
    if module == "__main__":
        return True
    filename = getattr(sys.modules.get(module), "__file__", None)
    return filename is not None and is_user_file(filename)


def attributes_of(holder: Any) -> dict[str, Any]:
    """The attributes of an instance, including those in slots and the fields of a named tuple."""
    found = dict(getattr(holder, "__dict__", None) or {})
    fields = getattr(holder, "_fields", None) if isinstance(holder, tuple) else None
    if isinstance(fields, tuple):
        found |= dict(zip(fields, holder, strict=False))
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
