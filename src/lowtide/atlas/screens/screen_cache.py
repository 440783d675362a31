"""Stored screens of large scopes and folds, which take long to compute; they are written with the index."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.screens.screen import Values, make_screen

# Smaller screens are computed on request. In a huge graph only screens with a share of its nodes are stored, since it
# has hundreds of large scopes.
_LEAST_HEAVY, _HEAVY_SHARE, _SURELY_HEAVY = 25_000, 0.02, 200_000
_FILE = "screens.json"
# Nested folds contain the same nodes again, so their number is bounded.
_MOST_SCREENS = 400


def screen_data(
    atlas: Atlas, part: int = 0, path: str = "", fold: str = "", values: Values | None = None
) -> dict[str, Any]:
    """Return the screen of a scope or a fold as plain data, stored or computed."""
    if values is None:
        stored = _stored(atlas.folder, atlas.header.get("seconds")).get(_key(part, path, fold))
        if stored is not None:
            return dict(stored)
    return make_screen(atlas, part, path, fold, values).to_dict()


def write_heavy_screens(atlas: Atlas) -> None:
    """Compute the screens of all large scopes and folds, and write them to the folder of the index."""
    heavy = min(max(_LEAST_HEAVY, _HEAVY_SHARE * len(atlas)), _SURELY_HEAVY)
    waiting = [
        (part, "", "")
        for part in range(len(atlas.parts))
        if part == 0 or atlas.part_range(part)[1] - atlas.part_range(part)[0] >= heavy
    ]
    screens: dict[str, Any] = {}
    while waiting and len(screens) < _MOST_SCREENS:
        part, path, fold = waiting.pop(0)
        # The name of a scope below `/` is empty, like that of the root.
        if _key(part, path, fold) in screens:
            continue
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
    """Read the stored screens; `built` distinguishes successive indexes in one folder."""
    try:
        stored: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored
