"""Who holds an object, in words that its owner recognises.

Python's collector can say which objects refer to another. From an object this leads up through containers, closures and
instances to a place that has a name: a global, a local of a running function, an attribute of a class of the user's.
Many objects are followed at once, because each question goes through all objects that there are.
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
    Holder,
    Place,
    attribute_place,
    attributes_of,
    function_place,
    generator_place,
    global_place,
    is_users_instance,
    key_of,
    local_place,
    locals_of,
    places_of_locals,
)
from lowtide.tf.trace.source_lines import is_lowtide_file, is_user_file

_DEEPEST = 12
# The collector compares each reference that there is with each object asked for. What lies in the same container is
# found with its neighbours, so that few have to be asked for.
_ASKED = 48
_ROUNDS = 3
# So many in one dictionary are named by the dictionary alone.
_CROWD = 4
# Objects that are referred to from everywhere, or say nothing about who holds what they hold.
_PASSING = (types.ModuleType, type, types.CodeType, types.TracebackType, types.BuiltinFunctionType)
_CONTAINERS = (list, tuple, set, frozenset, deque, types.CellType, types.MethodType, types.FunctionType)

UNKNOWN = Holder("unknown")
# A tape keeps what it recorded where the collector does not look, and so does a function that is just being called.
UNNAMED = Holder("no Python name: a GradientTape that is alive, or a value that is in use right now")


@dataclass(frozen=True, slots=True)
class _Link:
    """One step up: what holds the object (by identity), and how it is reached from there: `.history`, `["x"]`."""

    holder: int
    label: str
    crowded: bool


def holders_of(objects: Sequence[Any], ignore: Iterable[int] = ()) -> list[Holder]:
    """Return who holds each of `objects`. Containers of the caller's own are named in `ignore` by their `id`."""
    return _Walk(ignore).follow(objects)


class _Walk:
    """One search for names, from many objects at once, a level of referrers at a time."""

    def __init__(self, ignore: Iterable[int]) -> None:
        self.links: dict[int, _Link] = {}
        self.places: dict[int, Place] = {}
        self.asked: set[int] = set()
        self.bounded: set[int] = set()
        # What only shows one level further up: a dictionary is an instance's own, a cell is a function's variable.
        self.own_dicts: set[int] = set()
        self.cell_names: dict[int, str] = {}
        # Keeps all that was met alive, so that no `id` is used twice while the search lasts.
        self.met: list[Any] = []
        self.ignored = {id(self.met), *ignore}
        self.modules = {id(vars(each)) for each in list(sys.modules.values()) if isinstance(each, types.ModuleType)}

    def follow(self, objects: Sequence[Any]) -> list[Holder]:
        self.ignored.add(id(objects))
        local_places = places_of_locals()
        seen = {id(each) for each in objects}
        frontier = list(objects)
        for _ in range(_DEEPEST):
            self.met.extend(frontier)
            self.places |= {id(each): local_places[id(each)] for each in frontier if id(each) in local_places}
            frontier = [each for each in frontier if id(each) not in self.places]
            if not frontier:
                break
            frontier = self._climb(frontier, seen)
        self.asked -= {id(each) for each in frontier}
        return [self._name(id(each)) for each in objects]

    def _climb(self, frontier: list[Any], seen: set[int]) -> list[Any]:
        """Find what refers to the frontier, and return what is to be followed next."""
        wanted = {id(each): each for each in frontier}
        following: list[Any] = []
        self.ignored |= {id(frontier), id(wanted), id(following)}
        for _ in range(_ROUNDS):
            asked = _spread([each for each in frontier if id(each) not in self.links and id(each) not in self.places])
            if asked:
                self._ask(asked, wanted, seen, following)
        return following

    def _ask(self, asked: list[Any], wanted: dict[int, Any], seen: set[int], following: list[Any]) -> None:
        self.asked |= {id(each) for each in asked}
        self.ignored.add(id(asked))
        candidates = sorted((each for each in gc.get_referrers(*asked) if self._tells(each)), key=_rank)
        self.ignored.add(id(candidates))
        for holder in candidates:
            children = [key for key in map(id, gc.get_referents(holder)) if key in wanted]
            children = [key for key in children if key not in self.links and key not in self.places]
            labels, crowded = _labels(holder), len(children) > _CROWD
            places = {key: self._place(holder, wanted[key]) for key in children}
            self._note(holder, [wanted[key] for key in children])
            for key, place in places.items():
                if place is not None:
                    self.places[key] = place
                else:
                    self.links[key] = _Link(id(holder), labels(wanted[key]), crowded)
            if None in places.values() and id(holder) not in seen:
                seen.add(id(holder))
                following.append(holder)
                if _is_bounded(holder):
                    self.bounded.add(id(holder))

    def _note(self, holder: Any, children: list[Any]) -> None:
        if isinstance(holder, types.FunctionType):
            cells = zip(holder.__closure__ or (), holder.__code__.co_freevars, strict=False)
            self.cell_names |= {id(cell): name for cell, name in cells}
        own = getattr(holder, "__dict__", None)
        self.own_dicts |= {id(child) for child in children if child is own}

    def _tells(self, holder: Any) -> bool:
        if id(holder) in self.ignored or isinstance(holder, _PASSING):
            return False
        if isinstance(holder, types.FrameType):
            return not is_lowtide_file(holder.f_code.co_filename)
        if isinstance(holder, types.FunctionType) and is_lowtide_file(holder.__code__.co_filename):
            return False
        return not str(type(holder).__module__).startswith("lowtide.")

    def _place(self, holder: Any, child: Any) -> Place | None:
        """The name that is reached with this holder, or None where the search has to go on."""
        if id(holder) in self.modules:
            return global_place(holder, key_of(holder, child))
        if isinstance(holder, types.FrameType):
            return local_place(holder, key_of(locals_of(holder), child))
        if isinstance(holder, types.GeneratorType):
            return generator_place(holder, child)
        if isinstance(holder, types.FunctionType):
            return function_place(holder, child) if is_user_file(holder.__code__.co_filename) else None
        return attribute_place(holder, child) if is_users_instance(holder) else None

    def _name(self, key: int) -> Holder:
        """Follow the links up to a name; what was passed on the way is said behind it."""
        labels: list[str] = []
        bounded = False
        while key not in self.places:
            link = self.links.get(key)
            if link is None or len(labels) > _DEEPEST:
                return UNNAMED if key in self.asked and link is None else UNKNOWN
            labels.append(self._text(key, link))
            key = link.holder
            bounded = bounded or key in self.bounded
        return self.places[key].holder("".join(reversed(labels)), bounded)

    def _text(self, key: int, link: _Link) -> str:
        if key in self.cell_names:
            return f".{self.cell_names[key]}"
        if link.holder in self.own_dicts and link.label:
            return f".{link.label[2:-2]}"
        return "" if link.crowded and link.label.startswith("[") else link.label


def _is_bounded(holder: Any) -> bool:
    """A ring: a deque with a length, or a list made with room for more than it has."""
    if isinstance(holder, deque):
        return holder.maxlen is not None
    return isinstance(holder, list) and len(holder) > 1 and holder[-1] is None


def _labels(holder: Any) -> Callable[[Any], str]:
    """How children are reached from their holder. Which element of a list it is says nothing."""
    if isinstance(holder, dict):
        keys = {id(value): key for key, value in list(holder.items())}
        return lambda child: f"[{keys[id(child)]!r}]" if isinstance(keys.get(id(child)), str) else ""
    if isinstance(holder, _CONTAINERS):
        return lambda child: ""
    names = {id(value): name for name, value in attributes_of(holder).items()}
    return lambda child: f".{names[id(child)]}" if id(child) in names else ""


def _spread(objects: list[Any]) -> list[Any]:
    if len(objects) <= _ASKED:
        return objects
    return [objects[round(index * (len(objects) - 1) / (_ASKED - 1))] for index in range(_ASKED)]


def _rank(holder: Any) -> int:
    """Names first, then what usually lies on the way to one."""
    if isinstance(holder, types.FrameType):
        return 0
    if isinstance(holder, (list, dict, deque, set)):
        return 1
    return 3 if isinstance(holder, tuple) else 2
