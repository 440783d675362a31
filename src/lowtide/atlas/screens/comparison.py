"""Compare two graphs screen by screen: items that are the same, added, removed or changed."""

from __future__ import annotations

import re
from dataclasses import replace

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.screens.fingerprints import Fingerprints
from lowtide.atlas.screens.screen import Item, Screen, ScreenEdge, make_screen
from lowtide.errors import LowtideError

SAME, ADDED, REMOVED, CHANGED = "same", "added", "removed", "changed"


def compare_screens(before: Atlas, after: Atlas, path: str = "", fold: str = "", part: int = 0) -> Screen:
    """Return the union of the screens of a scope in both graphs; an item is the same if all its nodes are.

    Nodes are the same if names, ops, outputs and inputs are. `part` is a part of the graph `before`.
    """
    old, new = _screen(before, path, fold, part), _screen(after, path, fold, paired_part(before, after, part))
    if old is None and new is None:
        raise LowtideError("neither graph has such a scope", given=path, cure="search for it")
    if old is None or new is None:
        only, change = (new, ADDED) if new is not None else (old, REMOVED)
        assert only is not None
        return replace(only, items=[replace(item, change=change, value=None) for item in only.items])
    return _union(old, new)


def paired_part(before: Atlas, after: Atlas, part: int) -> int | None:
    """Return the part of `after` that corresponds to a part of `before`, or None.

    TensorFlow numbers functions differently in every process, so functions whose names differ only in a trailing number
    are paired in order.
    """
    if part == 0 or not 0 <= part < len(before.parts):
        return part
    if before.parts[part] in after.parts:
        return after.parts.index(before.parts[part])
    others = [set(graph.parts) for graph in (after, before)]
    candidates = [
        [
            number
            for number, name in enumerate(graph.parts)
            if number and name not in other and _stem(name) == _stem(before.parts[part])
        ]
        for graph, other in zip((before, after), others, strict=True)
    ]
    place = candidates[0].index(part)
    return candidates[1][place] if place < len(candidates[1]) else None


def _stem(name: str) -> str:
    return re.sub(r"_\d+$", "", name)


def _screen(atlas: Atlas, path: str, fold: str, part: int | None) -> Screen | None:
    if part is None:
        return None
    try:
        return make_screen(atlas, part, path, fold, Fingerprints(atlas))
    except LowtideError:
        return None


def _union(old: Screen, new: Screen) -> Screen:
    known = {item.key: item for item in old.items}
    items = [replace(item, change=_change(known.get(item.key), item), value=None) for item in new.items]
    present = {item.key for item in new.items}
    items += [replace(item, change=REMOVED, value=None) for item in old.items if item.key not in present]
    place = {item.key: number for number, item in enumerate(items)}
    edges: dict[tuple[int, int], ScreenEdge] = {}
    for screen in (old, new):
        for source, target, *amounts in screen.edges:
            pair = place[screen.items[source].key], place[screen.items[target].key]
            edges[pair] = (*pair, *amounts)  # type: ignore[assignment]
    borders = [
        [(place[screen.items[item].key], count, size) for item, count, size in rows]
        for screen, rows in ((new, new.incoming), (new, new.outgoing))
    ]
    return replace(
        new,
        items=items,
        edges=sorted(edges.values()),
        incoming=borders[0],
        outgoing=borders[1],
        hidden_edges=old.hidden_edges + new.hidden_edges,
    )


def _change(old: Item | None, new: Item) -> str:
    if old is None:
        return ADDED
    return SAME if (old.nodes, old.shape, old.value) == (new.nodes, new.shape, new.value) else CHANGED
