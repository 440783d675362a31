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
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.tf.references.reference_paths import (
    NamedReference,
    ObjectHolder,
    attribute_reference,
    attributes_of,
    function_reference,
    generator_reference,
    global_reference,
    is_users_instance,
    key_of,
    local_reference,
    local_references,
    locals_of,
)
from lowtide.tf.trace.source_lines import is_lowtide_file, is_user_file

_MAX_DEPTH = 12
# The collector compares every reference of the process with each queried object. Objects in one container are found
# together, so that querying a few of them is enough.
_MAX_QUERIED = 48
_ROUNDS = 3
# If a dictionary holds more objects than this, its keys are not shown.
_MAX_KEYED = 4
# Objects that are referred to from everywhere, or whose holders do not matter.
_IGNORED_TYPES = (types.ModuleType, type, types.CodeType, types.TracebackType, types.BuiltinFunctionType)
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
        self.queried: set[int] = set()
        self.bounded: set[int] = set()
        # Known only one level further up: a dictionary holds an instance's attributes, a cell a function's variable.
        self.instance_dicts: set[int] = set()
        self.cell_names: dict[int, str] = {}
        # Keeps all visited objects alive, so that no `id` is reused during the search.
        self.visited: list[Any] = []
        self.ignored = {id(self.visited), *ignore}
        self.modules = {id(vars(each)) for each in list(sys.modules.values()) if isinstance(each, types.ModuleType)}

    def run(self, objects: Sequence[Any]) -> list[ObjectHolder]:
        self.ignored.add(id(objects))
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

    def _next_level(self, frontier: list[Any], seen: set[int]) -> list[Any]:
        """Find what refers to the frontier, and return the referrers to search next."""
        wanted = {id(each): each for each in frontier}
        following: list[Any] = []
        self.ignored |= {id(frontier), id(wanted), id(following)}
        for _ in range(_ROUNDS):
            queried = _sample(
                [each for each in frontier if id(each) not in self.links and id(each) not in self.references]
            )
            if queried:
                self._find_referrers(queried, wanted, seen, following)
        return following

    def _find_referrers(self, queried: list[Any], wanted: dict[int, Any], seen: set[int], following: list[Any]) -> None:
        self.queried |= {id(each) for each in queried}
        self.ignored.add(id(queried))
        candidates = sorted((each for each in gc.get_referrers(*queried) if self._is_relevant(each)), key=_rank)
        self.ignored.add(id(candidates))
        for holder in candidates:
            children = [key for key in map(id, gc.get_referents(holder)) if key in wanted]
            children = [key for key in children if key not in self.links and key not in self.references]
            labels, is_crowded = _labels(holder), len(children) > _MAX_KEYED
            references = {key: self._named_reference(holder, wanted[key]) for key in children}
            self._note_names(holder, [wanted[key] for key in children])
            for key, reference in references.items():
                if reference is not None:
                    self.references[key] = reference
                else:
                    self.links[key] = _Link(id(holder), labels(wanted[key]), is_crowded)
            if None in references.values() and id(holder) not in seen:
                seen.add(id(holder))
                following.append(holder)
                if _is_bounded(holder):
                    self.bounded.add(id(holder))

    def _note_names(self, holder: Any, children: list[Any]) -> None:
        if isinstance(holder, types.FunctionType):
            cells = zip(holder.__closure__ or (), holder.__code__.co_freevars, strict=False)
            self.cell_names |= {id(cell): name for cell, name in cells}
        own = getattr(holder, "__dict__", None)
        self.instance_dicts |= {id(child) for child in children if child is own}

    def _is_relevant(self, holder: Any) -> bool:
        if id(holder) in self.ignored or isinstance(holder, _IGNORED_TYPES):
            return False
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
        return attribute_reference(holder, child) if is_users_instance(holder) else None

    def _holder(self, key: int) -> ObjectHolder:
        """Follow the links up to a named reference, and describe the path from there."""
        labels: list[str] = []
        bounded = False
        while key not in self.references:
            link = self.links.get(key)
            if link is None or len(labels) > _MAX_DEPTH:
                return UNNAMED if key in self.queried and link is None else UNKNOWN
            labels.append(self._label(key, link))
            key = link.referrer
            bounded = bounded or key in self.bounded
        return self.references[key].holder("".join(reversed(labels)), bounded)

    def _label(self, key: int, link: _Link) -> str:
        if key in self.cell_names:
            return f".{self.cell_names[key]}"
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


def _sample(objects: list[Any]) -> list[Any]:
    if len(objects) <= _MAX_QUERIED:
        return objects
    return [objects[round(index * (len(objects) - 1) / (_MAX_QUERIED - 1))] for index in range(_MAX_QUERIED)]


def _rank(holder: Any) -> int:
    """Sort key: frames first, then the containers that most likely lead to a name."""
    if isinstance(holder, types.FrameType):
        return 0
    if isinstance(holder, (list, dict, deque, set)):
        return 1
    return 3 if isinstance(holder, tuple) else 2
