"""Suggestions for a name that does not exist: similar ops, nodes and scopes."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Column

# Similarity is computed letter by letter, so only the first texts and candidates are compared.
_TEXTS, _CANDIDATES = 20_000, 2_000
_SHOWN = 3


def suggest_ops(atlas: Atlas, unknown: Sequence[str]) -> str:
    """Suggest ops with similar names."""
    lower = {op.lower(): op for op in atlas.ops}
    near = [lower[each] for name in unknown for each in get_close_matches(name.lower(), lower, _SHOWN)]
    return _did_you_mean(near) or "lowtide graph PATH lists the ops of a graph"


def suggest_names(atlas: Atlas, name: str) -> str:
    """Suggest nodes with similar names."""
    numbers = _near_texts(atlas, name.rpartition("/")[2])
    nodes = np.flatnonzero(np.isin(atlas.leaf, numbers))[:_CANDIDATES]
    return _did_you_mean(get_close_matches(name, atlas.names(nodes), _SHOWN)) or "lowtide view PATH searches by name"


def suggest_scopes(atlas: Atlas, name: str) -> str:
    """Suggest scopes with similar names."""
    name = name.strip("/")
    numbers = _near_texts(atlas, name.rpartition("/")[2])
    scopes = np.flatnonzero(np.isin(atlas.scope_leaf, numbers))[:_CANDIDATES]
    near = get_close_matches(name, [atlas.scope_name(int(scope)) for scope in scopes], _SHOWN)
    return _did_you_mean(near) or "lowtide graph PATH lists the largest scopes"


def _near_texts(atlas: Atlas, text: str) -> Column:
    """Return the numbers of texts that are similar to a text."""
    count = min(len(atlas.texts_first) - 1, _TEXTS)
    numbers = {atlas.text(number): number for number in range(count)}
    exact = atlas.number_of(text)
    near = [numbers[each] for each in get_close_matches(text, numbers, _SHOWN * 3)]
    return np.array([*near, *([] if exact is None else [exact])], np.int64)


def _did_you_mean(names: list[str]) -> str:
    distinct = list(dict.fromkeys(names))[:_SHOWN]
    return f"did you mean {' or '.join(distinct)}?" if distinct else ""
