"""Finds what holds objects: the named reference in the user's program from which an object is reached.

Python's garbage collector finds the objects that refer to another one. The search follows them upwards through
containers, closures and instances to a reference that has a name: a global variable, a local variable of a running
function, an attribute of one of the user's classes. Many objects are searched at once, because each query visits all
objects of the process.
"""

from __future__ import annotations

import gc
import sys
import types
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from lowtide.tf.references.reference_paths import (
    NamedReference,
    ObjectHolder,
    attribute_reference,
    attributes_of,
    class_reference,
    function_reference,
    generator_reference,
    global_reference,
    is_users_class,
    key_of,
    local_reference,
    local_references,
    locals_of,
    running_frames,
)
from lowtide.tf.trace.source_lines import is_lowtide_file, is_user_file

_MAX_DEPTH = 12
# `gc.get_referrers` compares every reference of the process with each queried object. For more objects than this, one
# loop over all objects is faster.
_MAX_QUERIED = 48
# If a dictionary holds more objects than this, its keys are not shown.
_MAX_KEYED = 4
# If more instances of one class, or more calls of one function, hold the objects, then what holds these has the name.
_MAX_ALIKE = 4
_MAX_ARRAY_ELEMENTS = 1 << 22
# Objects that are referred to from everywhere, or whose holders do not matter.
_IGNORED_TYPES = (types.ModuleType, types.CodeType, types.BuiltinFunctionType)
_PLAIN_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_CONTAINERS = (list, tuple, set, frozenset, deque, types.CellType, types.MethodType, types.FunctionType)

UNKNOWN = ObjectHolder("unknown")
# The collector does not see what a tape recorded, nor the arguments of a function that is being called.
UNNAMED = ObjectHolder("no Python name: a GradientTape that is alive, or a value that is in use right now")


@dataclass(frozen=True, slots=True)
class _Link:
    """The referrer of an object (by identity), and how the object is reached from it: `.history`, `["x"]`."""

    referrer: int
    label: str
    is_crowded: bool


def holders_of(objects: Sequence[Any], ignore: Iterable[int] = ()) -> list[ObjectHolder]:
    """Return what holds each of `objects`. `ignore` has the `id` of containers that do not count."""
    return _ReferrerSearch(ignore).run(objects)


class _ReferrerSearch:
    """A breadth-first search upwards from many objects, one level of referrers at a time."""

    def __init__(self, ignore: Iterable[int]) -> None:
        self.links: dict[int, _Link] = {}
        self.references: dict[int, NamedReference] = {}
        # Names that are used only if the search above them finds none.
        self.possible: dict[int, NamedReference] = {}
        self.queried: set[int] = set()
        self.bounded: set[int] = set()
        self.linked: set[int] = set()
        # Known only one level further up: a dictionary holds an instance's attributes, a cell a function's variable.
        self.instance_dicts: set[int] = set()
        self.cell_names: dict[int, str] = {}
        self.default_names: dict[tuple[int, int], str] = {}
        # Keeps all visited objects alive, so that no `id` is reused during the search.
        self.visited: list[Any] = []
        self.arrays: list[Any] | None = None
        self.own: list[Any] = []
        self.ignored = {id(self.visited), id(self.own), *ignore}
        self.modules = {id(vars(each)) for each in list(sys.modules.values()) if isinstance(each, types.ModuleType)}

    def run(self, objects: Sequence[Any]) -> list[ObjectHolder]:
        self._ignore(objects)
        references = local_references()
        seen = {id(each) for each in objects}
        frontier = list(objects)
        for _ in range(_MAX_DEPTH):
            self.visited.extend(frontier)
            self.references |= {id(each): references[id(each)] for each in frontier if id(each) in references}
            frontier = [each for each in frontier if id(each) not in self.references]
            if not frontier:
                break
            frontier = self._next_level(frontier, seen)
        self.queried -= {id(each) for each in frontier}
        return [self._holder(id(each)) for each in objects]

    def _ignore(self, *containers: Any) -> None:
        """Do not count containers of the search itself; they stay alive, so that no other object gets their `id`."""
        self.own.extend(containers)
        self.ignored.update(map(id, containers))

    def _next_level(self, frontier: list[Any], seen: set[int]) -> list[Any]:
        """Find what refers to the frontier, and return the referrers to search next."""
        wanted = {id(each): each for each in frontier}
        following: list[Any] = []
        self._ignore(frontier, wanted, following)
        self.queried |= wanted.keys()
        candidates = sorted(
            filter(self._is_relevant, _referrers(frontier)),
            # A global variable is the best name that there can be.
            key=lambda each: -1 if id(each) in self.modules else _rank(each),
        )
        self._ignore(candidates)
        alike = Counter(map(_kind, candidates))
        for holder in candidates:
            children = [key for key in dict.fromkeys(map(id, gc.get_referents(holder))) if key in wanted]
            self._note_holder(holder, [wanted[key] for key in children], alike[_kind(holder)] > _MAX_ALIKE)
            self._follow(holder, seen, following)
        self._search_arrays(wanted, seen, following)
        return following

    def _note_holder(self, holder: Any, children: list[Any], is_common: bool) -> None:
        """Record how a holder refers to those of these objects for which no reference is known yet."""
        children = [child for child in children if id(child) not in self.links and id(child) not in self.references]
        labels, is_crowded = _labels(holder), len(children) > _MAX_KEYED
        self._note_names(holder, children)
        for child in children:
            reference = self._named_reference(holder, child)
            if reference is not None and not is_common:
                self.references[id(child)] = reference
                continue
            if reference is not None:
                self.possible[id(child)] = reference
            self.links[id(child)] = _Link(id(holder), labels(child), is_crowded)
            self.linked.add(id(holder))

    def _follow(self, holder: Any, seen: set[int], following: list[Any]) -> None:
        """Search above a holder that some object is linked to."""
        if id(holder) in self.linked and id(holder) not in seen:
            seen.add(id(holder))
            following.append(holder)
            if _is_bounded(holder):
                self.bounded.add(id(holder))

    def _search_arrays(self, wanted: dict[int, Any], seen: set[int], following: list[Any]) -> None:
        """Search NumPy arrays of objects, which the garbage collector does not track."""
        missing = {key for key in wanted if key not in self.links and key not in self.references}
        if not missing:
            return
        if self.arrays is None:
            self.arrays = list(_object_arrays())
            self._ignore(self.arrays)
        for array in self.arrays:
            if array.size <= _MAX_ARRAY_ELEMENTS and not missing.isdisjoint(map(id, array.flat)):
                self._note_holder(array, [wanted[id(each)] for each in array.flat if id(each) in missing], False)
                self._follow(array, seen, following)

    def _note_names(self, holder: Any, children: list[Any]) -> None:
        if isinstance(holder, types.FunctionType):
            cells = zip(holder.__closure__ or (), holder.__code__.co_freevars, strict=False)
            self.cell_names |= {id(cell): name for cell, name in cells}
            defaults, code = holder.__defaults__ or (), holder.__code__
            names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
            pairs = zip(defaults, names, strict=False)
            self.default_names |= {(id(holder.__defaults__), id(value)): name for value, name in pairs}
        # `__dict__` of a class is a view of the dictionary that it refers to.
        own = holder if isinstance(holder, type) else getattr(holder, "__dict__", None)
        is_own = (lambda child: type(child) is dict) if own is holder else (lambda child: child is own)
        self.instance_dicts |= {id(child) for child in children if is_own(child)}

    def _is_relevant(self, holder: Any) -> bool:
        if id(holder) in self.ignored or isinstance(holder, _IGNORED_TYPES):
            return False
        if isinstance(holder, type):
            return is_users_class(holder)
        if isinstance(holder, types.FrameType):
            return not is_lowtide_file(holder.f_code.co_filename)
        if isinstance(holder, types.FunctionType) and is_lowtide_file(holder.__code__.co_filename):
            return False
        return not str(type(holder).__module__).startswith("lowtide.")

    def _named_reference(self, holder: Any, child: Any) -> NamedReference | None:
        """The named reference that this holder is, or None if the search has to go on."""
        if id(holder) in self.modules:
            return global_reference(holder, key_of(holder, child))
        if isinstance(holder, types.FrameType):
            return local_reference(holder, key_of(locals_of(holder), child))
        if isinstance(holder, types.GeneratorType):
            return generator_reference(holder, child)
        if isinstance(holder, types.FunctionType):
            return function_reference(holder, child) if is_user_file(holder.__code__.co_filename) else None
        if isinstance(holder, (list, tuple, dict, set, deque)) and child is not getattr(holder, "__dict__", None):
            # An item of one of the user's containers, not an attribute.
            return None
        if isinstance(holder, type):
            return class_reference(holder)
        return attribute_reference(holder, child) if is_users_class(type(holder)) else None

    def _holder(self, key: int) -> ObjectHolder:
        """Follow the links up to a named reference, and describe the path from there."""
        labels: list[str] = []
        bounded = False
        possible: ObjectHolder | None = None
        passed: set[int] = set()
        while key not in self.references:
            link = self.links.get(key)
            if key in self.possible:
                possible = self.possible[key].holder("".join(reversed(labels)), bounded)
            if link is None or key in passed:
                return possible or (UNNAMED if key in self.queried and link is None else UNKNOWN)
            passed.add(key)
            labels.append(self._label(key, link))
            key = link.referrer
            bounded = bounded or key in self.bounded
        return self.references[key].holder("".join(reversed(labels)), bounded)

    def _label(self, key: int, link: _Link) -> str:
        if key in self.cell_names:
            return f".{self.cell_names[key]}"
        if (link.referrer, key) in self.default_names:
            return f".{self.default_names[link.referrer, key]}"
        if link.referrer in self.instance_dicts and link.label:
            return f".{link.label[2:-2]}"
        return "" if link.is_crowded and link.label.startswith("[") else link.label


def _is_bounded(holder: Any) -> bool:
    """Whether a container's size is limited: a deque with a maximum length, or a list with unused entries."""
    if isinstance(holder, deque):
        return holder.maxlen is not None
    return isinstance(holder, list) and len(holder) > 1 and holder[-1] is None


def _labels(holder: Any) -> Callable[[Any], str]:
    """A function from a child to how its holder reaches it; the index in a list is left out."""
    if isinstance(holder, dict):
        keys = {id(value): key for key, value in list(holder.items())}
        return lambda child: f"[{keys[id(child)]!r}]" if isinstance(keys.get(id(child)), str) else ""
    if isinstance(holder, _CONTAINERS):
        return lambda child: ""
    names = {id(value): name for name, value in attributes_of(holder).items()}
    return lambda child: f".{names[id(child)]}" if id(child) in names else ""


def _referrers(objects: list[Any]) -> list[Any]:
    """The objects that refer to at least one of `objects`."""
    if len(objects) <= _MAX_QUERIED:
        return gc.get_referrers(*objects)
    wanted = set(map(id, objects))
    return [each for each in gc.get_objects() if not wanted.isdisjoint(map(id, gc.get_referents(each)))]


def _object_arrays() -> Iterator[Any]:
    """All NumPy arrays of objects to which a tracked object or a running function refers."""
    seen: set[int] = set()
    referents = (gc.get_referents(each) for each in gc.get_objects())
    local_values = (list(locals_of(frame).values()) for frame in running_frames())
    for values in chain(referents, local_values):
        for each in values:
            if type(each) is np.ndarray and each.dtype.hasobject and id(each) not in seen:
                seen.add(id(each))
                yield each


def _kind(holder: Any) -> Any:
    """What holders that were created by the same code have in common; containers have nothing."""
    if isinstance(holder, types.FrameType):
        return holder.f_code
    if isinstance(holder, types.GeneratorType):
        return holder.gi_code
    if isinstance(holder, types.FunctionType):
        return holder.__code__
    return id(holder) if isinstance(holder, (*_PLAIN_CONTAINERS, type)) else type(holder)


def _rank(holder: Any) -> int:
    """Sort key: frames first, then the containers that most likely lead to a name."""
    if isinstance(holder, types.FrameType):
        return 0
    if isinstance(holder, (list, dict, deque, set)):
        return 1
    return 3 if isinstance(holder, tuple) else 2
