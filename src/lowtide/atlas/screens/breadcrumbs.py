"""Breadcrumbs: the scopes and folds to open, one after the other, from the top of a graph to a node or a scope."""

from __future__ import annotations

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.screens.folding import FoldGroup, fold_members, unfold
from lowtide.atlas.screens.scope_entries import ScopeEntries

# A bound on the depth: folding along a path of ten thousand scopes would take seconds.
MOST_KEYS = 200


def breadcrumbs_to_node(atlas: Atlas, node: int) -> list[str]:
    """Return the keys of the scopes and folds around a node, the outermost first."""
    return _breadcrumbs(atlas, atlas.part_of(node), node, None)


def breadcrumbs_to_scope(atlas: Atlas, scope: int) -> list[str]:
    """Return the keys of the scopes and folds around a scope, the outermost first."""
    return _breadcrumbs(atlas, atlas.part_of_scope(scope), int(atlas.scope_first[scope]), scope)


def _breadcrumbs(atlas: Atlas, part: int, node: int, goal: int | None) -> list[str]:
    keys: list[str] = []
    scope = atlas.find_scope("", part)
    while scope is not None and scope != goal and len(keys) < MOST_KEYS:
        path = atlas.scope_name(scope)
        if keys or path:
            keys.append(path)
        scope = _step(ScopeEntries.of(atlas, scope), path, node, keys)
    return keys


def _step(everything: ScopeEntries, path: str, node: int, keys: list[str]) -> int | None:
    """Add the folds within a scope that lead to the node; return the next scope, or None if the node is reached."""
    fold = ""
    while True:
        members, prefix = unfold(everything, fold)
        group = next((each for each in fold_members(members, fold, prefix) if _contains(each, node)), None)
        if group is None:
            return None
        if len(group.members) == 1:
            return int(group.members.id[0]) if group.members.is_scope[0] else None
        fold = "|".join(filter(None, (fold, group.step)))
        keys.append(f"{path}|{fold}")


def _contains(group: FoldGroup, node: int) -> bool:
    return bool(np.any((group.members.first <= node) & (node < group.members.last)))
