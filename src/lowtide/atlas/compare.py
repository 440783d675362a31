"""Two graphs over each other: what is in both, in one alone, or not the same in both."""

from __future__ import annotations

from dataclasses import replace

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.screen import Item, Screen, make_screen
from lowtide.errors import LowtideError

SAME, ADDED, REMOVED, CHANGED = "same", "added", "removed", "changed"


def compare_screens(before: Atlas, after: Atlas, path: str = "", fold: str = "", part: int = 0) -> Screen:
    """The screen of a scope in both graphs; items are the same if they hold as many nodes, of the same op and bytes."""
    old, new = _screen(before, path, fold, part), _screen(after, path, fold, part)
    if old is None and new is None:
        raise LowtideError("neither graph has such a scope", given=path, cure="search for it")
    if old is None or new is None:
        only, change = (new, ADDED) if new is not None else (old, REMOVED)
        assert only is not None
        return replace(only, items=[replace(item, change=change) for item in only.items])
    return _union(old, new)


def _screen(atlas: Atlas, path: str, fold: str, part: int) -> Screen | None:
    try:
        return make_screen(atlas, part, path, fold)
    except LowtideError:
        return None


def _union(old: Screen, new: Screen) -> Screen:
    known = {item.key: item for item in old.items}
    items = [replace(item, change=_change(known.get(item.key), item)) for item in new.items]
    present = {item.key for item in new.items}
    items += [replace(item, change=REMOVED) for item in old.items if item.key not in present]
    place = {item.key: number for number, item in enumerate(items)}
    edges: dict[tuple[int, int], tuple[int, int, int, int, int]] = {}
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
    same = (old.nodes, old.op, old.bytes, old.dtype, old.shape) == (new.nodes, new.op, new.bytes, new.dtype, new.shape)
    return SAME if same else CHANGED
