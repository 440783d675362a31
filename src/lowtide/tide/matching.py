"""Matches the layers, nodes and tensors of two programs."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import zip_longest
from typing import TypeVar

from lowtide.tide.layers import without_number
from lowtide.tide.owner import Owner

_Item = TypeVar("_Item")

LayerPair = tuple[str | None, str | None]
"""The names of one layer before and after; None where it does not exist."""


def match_layers(before: Sequence[str], after: Sequence[str]) -> list[LayerPair]:
    """Pair the layers of two programs; every name is in exactly one pair.

    Keras numbers layers without a given name in the order of their creation: "dense" of one process is "dense_3" of
    another. So layers that differ only in their numbers are a family, and are matched within it.
    """
    families: dict[str, tuple[list[str], list[str]]] = {}
    for side, names in enumerate((before, after)):
        for name in names:
            families.setdefault(_family(name), ([], []))[side].append(name)
    pairs: list[LayerPair] = []
    for old, new in families.values():
        # Sorted by name too, because "dense" and "dense_0" have the same number.
        pairs += _match_family(*(sorted(sorted(side), key=_numbers) for side in (old, new)))
    return pairs


def _match_family(old: list[str], new: list[str]) -> list[LayerPair]:
    common = set(old) & set(new)
    # With the same gaps between the numbers, the counting only started elsewhere, even if some names are the same.
    if not common or _gaps(old) == _gaps(new):
        return list(zip_longest(old, new))
    rest_old = [name for name in old if name not in common]
    rest_new = [name for name in new if name not in common]
    pairs: list[LayerPair] = [(name, name) for name in old if name in common]
    if len(rest_old) == len(rest_new):
        return pairs + list(zip(rest_old, rest_new, strict=True))
    # The rest cannot be matched.
    return pairs + [(name, None) for name in rest_old] + [(None, name) for name in rest_new]


def _family(name: str) -> str:
    return "/".join(without_number(part) for part in name.split("/"))


def _numbers(name: str) -> tuple[int, ...]:
    """Return the number of each part of a path; "dense" has number 0, as in Keras."""
    ends = (part[len(without_number(part)) + 1 :] for part in name.split("/"))
    return tuple(int(end) if end else 0 for end in ends)


def _gaps(names: list[str]) -> list[tuple[int, ...]]:
    numbers = [_numbers(name) for name in names]
    return [tuple(map(int.__sub__, number, numbers[0])) for number in numbers]


def same_node(before: str, after: str) -> bool:
    """Whether two node names are equal except for numbers that depend on what was built before them."""
    return _without_numbers(before) == _without_numbers(after)


def match_nodes(before: Iterable[str], after: Iterable[str]) -> dict[str, str]:
    """Return the name before of each name after, where there is one.

    Names that differ only in their numbers are a family. If a family has as many members before as after, they match in
    the order of their numbers, whose counting may have started elsewhere; otherwise only equal names match.
    """
    families: dict[str, tuple[list[str], list[str]]] = {}
    for side, names in enumerate((before, after)):
        for name in names:
            families.setdefault(_without_numbers(name), ([], []))[side].append(name)
    found: dict[str, str] = {}
    for old, new in families.values():
        if len(old) == len(new):
            pairs = zip(sorted(old, key=_all_numbers), sorted(new, key=_all_numbers), strict=True)
            found |= {name: source for source, name in pairs}
        else:
            found |= {name: name for name in set(old) & set(new)}
    return found


def _all_numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"_(\d+)(?=[/_:]|$)", name)]


def match_tensors(before: Sequence[Owner], after: Sequence[Owner]) -> list[tuple[Owner | None, Owner | None]]:
    """Pair the tensors of one layer, each once; if several match, the first is taken."""
    return _pair(
        before,
        after,
        # From certain matches to probable ones; unchanged tensors first.
        (
            lambda tensor: (tensor.name, *_type(tensor)),
            lambda tensor: (_without_numbers(tensor.name or ""), *_type(tensor)),
            lambda tensor: (tensor.name, tensor.kind),
            lambda tensor: (_without_numbers(tensor.name or ""), tensor.kind),
            lambda tensor: (tensor.op, *_type(tensor)),
            _type,
            lambda tensor: (tensor.op, tensor.kind, None if tensor.shape is None else len(tensor.shape)),
        ),
    )


def _type(tensor: Owner) -> tuple[Hashable, ...]:
    return tensor.kind, tensor.dtype, tensor.shape, tensor.requested_bytes


def _without_numbers(name: str) -> str:
    """Return the name of a tensor without numbers that depend on what was built before it."""
    return re.sub(r"_\d+(?=[/_:]|$)", "", name)


def _pair(
    before: Sequence[_Item], after: Sequence[_Item], keys: Sequence[Callable[[_Item], Hashable]]
) -> list[tuple[_Item | None, _Item | None]]:
    """Pair items with the same first key, of the rest those with the same second key, and so on."""
    pairs: list[tuple[_Item | None, _Item | None]] = []
    old, new = list(before), list(after)
    for key in keys:
        waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
        for position, item in enumerate(new):
            waiting[key(item)].append(position)
        rest, taken = [], set()
        for item in old:
            found = waiting[key(item)]
            if found:
                taken.add(found[0])
                pairs.append((item, new[found.popleft()]))
            else:
                rest.append(item)
        old, new = rest, [item for position, item in enumerate(new) if position not in taken]
    return pairs + [(item, None) for item in old] + [(None, item) for item in new]
