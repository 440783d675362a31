"""Screens that take long to make lie beside the index: those of scopes and folds with very many nodes."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.screens.screen import Values, make_screen

# A screen of fewer nodes is made while somebody waits for it; of a huge graph only those with a share of its nodes are
# made before, since it has hundreds of large scopes.
_LEAST_HEAVY, _HEAVY_SHARE, _SURELY_HEAVY = 25_000, 0.02, 200_000
_FILE = "screens.json"
# Folds in folds of the same nodes would be written again and again.
_MOST_SCREENS = 400


def screen_data(
    atlas: Atlas, part: int = 0, path: str = "", fold: str = "", values: Values | None = None
) -> dict[str, Any]:
    """The screen of a scope or a fold as plain data: as it lies there, or made now."""
    if values is None:
        stored = _stored(atlas.folder, atlas.header.get("seconds")).get(_key(part, path, fold))
        if stored is not None:
            return dict(stored)
    return make_screen(atlas, part, path, fold, values).to_dict()


def write_heavy_screens(atlas: Atlas) -> None:
    """Make the screens of all that has very many nodes, and write them beside the columns."""
    heavy = min(max(_LEAST_HEAVY, _HEAVY_SHARE * len(atlas)), _SURELY_HEAVY)
    waiting = [
        (part, "", "")
        for part in range(len(atlas.parts))
        if part == 0 or atlas.part_range(part)[1] - atlas.part_range(part)[0] >= heavy
    ]
    screens: dict[str, Any] = {}
    while waiting and len(screens) < _MOST_SCREENS:
        part, path, fold = waiting.pop(0)
        screen = make_screen(atlas, part, path, fold)
        atlas.release()
        if screen.nodes < heavy:
            continue
        screens[_key(part, path, fold)] = screen.to_dict()
        for item in screen.items:
            if item.kind != "node" and item.nodes >= heavy:
                below, _, folded = item.key.partition("|")
                waiting.append((part, below, folded))
    (atlas.folder / _FILE).write_text(json.dumps(screens), encoding="utf-8")


def _key(part: int, path: str, fold: str) -> str:
    return f"{part}|{path}|{fold}"


@lru_cache(maxsize=8)
def _stored(folder: Path, built: float | None) -> dict[str, Any]:
    """What was written; `built` tells one index in a folder from the next."""
    try:
        stored: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored
