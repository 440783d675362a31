"""The way to a node or a scope: which scopes and folds to open, from the outside in, until it is on a screen."""

from __future__ import annotations

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.folding import LIMIT, Group, fold_members, unfold
from lowtide.atlas.members import Members

_MOST_KEYS = 500


def trail_to_node(atlas: Atlas, node: int) -> list[str]:
    """The keys of what is opened on the way to a node; only the first of very many."""
    scope = int(atlas.scope[node])
    keys = _scopes_to(atlas, scope)
    return keys if len(keys) >= _MOST_KEYS else [*keys, *_folds_to(Members.of(atlas, scope), _path(keys), node)]


def trail_to_scope(atlas: Atlas, scope: int) -> list[str]:
    """The keys of what is opened on the way to a scope, which stays closed itself; only the first of very many."""
    return _scopes_to(atlas, scope)[:-1]


def _scopes_to(atlas: Atlas, scope: int) -> list[str]:
    """The keys of what is opened until a scope is open."""
    above = []
    while (parent := int(atlas.scope_parent[scope])) != scope:
        above.append((parent, scope))
        scope = parent
    keys: list[str] = []
    # Each key holds the whole path: those of ten thousand scopes in each other would be a hundred megabytes.
    for parent, child in reversed(above[-_MOST_KEYS:]):
        path = _path(keys)
        keys += _folds_to(Members.of(atlas, parent), path, child, is_scope=True)
        keys.append("/".join(filter(None, (path, atlas.text(int(atlas.scope_leaf[child]))))))
    return keys


def _path(keys: list[str]) -> str:
    """The scope that is open when all of these are."""
    return keys[-1] if keys else ""


def _folds_to(everything: Members, path: str, wanted: int, *, is_scope: bool = False) -> list[str]:
    """The keys of the folds in a scope that are opened until one of its members is seen."""
    fold, members, prefix = "", everything, 0
    keys: list[str] = []
    while len(members) > LIMIT:
        group = _holding(fold_members(members, fold, prefix), wanted, is_scope=is_scope)
        if group is None or len(group.members) in (1, len(members)):
            break
        fold = "|".join(filter(None, (fold, group.step)))
        keys.append(f"{path}|{fold}")
        members, prefix = unfold(everything, fold)
    return keys


def _holding(groups: list[Group], wanted: int, *, is_scope: bool) -> Group | None:
    for group in groups:
        members = group.members
        if np.any((members.id == wanted) & (members.is_scope == is_scope)):
            return group
    return None
