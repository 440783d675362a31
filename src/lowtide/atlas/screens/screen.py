"""A screen: what lies in a scope or a fold, as so few items and bundled edges that they can be drawn and read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Floats, Indices
from lowtide.atlas.index.phases import PHASES
from lowtide.atlas.node_details import outputs_of
from lowtide.atlas.node_message import read_node, shape_text
from lowtide.atlas.screens.edge_bundles import Bundles, Ranges, bundle, release_after_chunk
from lowtide.atlas.screens.folding import RANGE, SERIES, FoldError, FoldGroup, fold_members, unfold
from lowtide.atlas.screens.scope_entries import ScopeEntries
from lowtide.errors import LowtideError

# So many bundles are drawn at the most: the heaviest.
MOST_EDGES = 400
_NUMBER = re.compile(r"_?\d+")
# A group is of a phase if nearly all of it is.
_MOSTLY = 0.95

Values = Callable[[Indices], Floats]
"""What colours nodes: an amount for each of some nodes, which is summed over a group."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing on a screen: a node, a scope, or a fold of several."""

    key: str
    kind: str
    label: str
    nodes: int
    members: int
    bytes: int
    phase: str
    op: str | None = None
    device: str | None = None
    dtype: str | None = None
    shape: str | None = None
    value: float | None = None
    calls: list[int] = field(default_factory=list)
    change: str | None = None


@dataclass(frozen=True, slots=True)
class Screen:
    """What is shown of one scope or fold."""

    part: int
    path: str
    fold: str
    title: str
    nodes: int
    children: int
    items: list[Item]
    edges: list[tuple[int, int, int, int, int]]
    """From item, to item, how many edges, how many bytes, how many of them only wait."""
    incoming: list[tuple[int, int, int]]
    outgoing: list[tuple[int, int, int]]
    hidden_items: int = 0
    hidden_edges: int = 0
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The screen as plain data."""
        return asdict(self)


def make_screen(atlas: Atlas, part: int = 0, path: str = "", fold: str = "", values: Values | None = None) -> Screen:
    """The screen of a scope, or of a fold in it."""
    scope = atlas.find_scope(path, part) if 0 <= part < len(atlas.parts) else None
    if scope is None:
        raise LowtideError("there is no such scope in the graph", given=path or f"part {part}", cure="search for it")
    everything = ScopeEntries.of(atlas, scope)
    try:
        members, prefix = unfold(everything, fold)
    except FoldError as error:
        raise LowtideError(str(error), cure="open the scope that it is in") from error
    groups = fold_members(members, fold, prefix)
    title = fold.rpartition("|")[2] or path.rpartition("/")[2] or atlas.parts[part] or "graph"
    return _draw(atlas, groups, part, path, fold, title, len(members), values)


def make_node_screen(
    atlas: Atlas, nodes: Indices, part: int, title: str, hidden: int = 0, values: Values | None = None
) -> Screen:
    """A screen of some nodes, wherever they lie."""
    members = ScopeEntries.of_nodes(atlas, np.sort(nodes))
    groups = [FoldGroup(members.take(np.array([row]))) for row in range(len(members))]
    screen = _draw(atlas, groups, part, "", "", title, len(members), values, whole_names=True)
    return Screen(**{**_shallow(screen), "hidden_items": hidden})


def _shallow(screen: Screen) -> dict[str, Any]:
    return {name: getattr(screen, name) for name in Screen.__slots__}


def _draw(
    atlas: Atlas,
    groups: list[FoldGroup],
    part: int,
    path: str,
    fold: str,
    title: str,
    children: int,
    values: Values | None,
    *,
    whole_names: bool = False,
) -> Screen:
    if not groups:
        return Screen(part, path, fold, title, 0, 0, [], [], [], [])
    ranges = Ranges(
        np.concatenate([group.members.first for group in groups]),
        np.concatenate([group.members.last for group in groups]),
        np.repeat(np.arange(len(groups)), [len(group.members) for group in groups]),
        len(groups),
    )
    totals = _totals(atlas, ranges, values)
    items = [_item(atlas, group, row, path, fold, totals, whole_names=whole_names) for row, group in enumerate(groups)]
    bundles = bundle(atlas, ranges)
    heaviest = np.argsort(-bundles.count, kind="stable")[:MOST_EDGES]
    return Screen(
        part,
        path,
        fold,
        title,
        int((ranges.last - ranges.first).sum()),
        children,
        items,
        [_edge(bundles, row) for row in np.sort(heaviest)],
        [
            (int(row), int(bundles.incoming[row]), int(bundles.incoming_bytes[row]))
            for row in np.flatnonzero(bundles.incoming)
        ],
        [(int(row), int(bundles.outgoing[row]), 0) for row in np.flatnonzero(bundles.outgoing)],
        hidden_edges=len(bundles.count) - len(heaviest),
    )


def _edge(bundles: Bundles, row: int) -> tuple[int, int, int, int, int]:
    columns = (bundles.source, bundles.target, bundles.count, bundles.bytes, bundles.control)
    source, target, count, size, control = (int(column[row]) for column in columns)
    return source, target, count, size, control


@dataclass(frozen=True, slots=True)
class _Totals:
    """Sums over the nodes of each group."""

    nodes: Indices
    bytes: Indices
    phase: Floats
    """How many nodes of each phase, by group."""
    device: list[str | None]
    value: Floats | None


def _totals(atlas: Atlas, ranges: Ranges, values: Values | None) -> _Totals:
    count = ranges.count
    sizes, phases = np.zeros(count), np.zeros(count * len(PHASES))
    value = np.zeros(count)
    is_on = np.zeros((count, len(atlas.devices)), np.bool_)
    for nodes, groups in ranges.chunks():
        first = atlas.first_tensor
        low, high = int(first[nodes.min()]), int(first[int(nodes.max()) + 1])
        running = np.concatenate([[0], np.cumsum(atlas.tensor_bytes[low:high])])
        sizes += np.bincount(groups, running[first[nodes + 1] - low] - running[first[nodes] - low], minlength=count)
        phases += np.bincount(groups * len(PHASES) + atlas.phase[nodes], minlength=count * len(PHASES))
        is_on[groups, atlas.device[nodes]] = True
        if values is not None:
            value += np.bincount(groups, values(nodes), minlength=count)
        release_after_chunk(atlas, nodes)
    nodes_in = np.bincount(ranges.group, ranges.last - ranges.first, minlength=count)
    return _Totals(
        nodes_in.astype(np.int64),
        sizes.astype(np.int64),
        phases.reshape(count, len(PHASES)),
        # All on one device, or on none that could be named.
        [atlas.devices[int(row.argmax())] or None if np.count_nonzero(row) == 1 else None for row in is_on],
        None if values is None else value,
    )


def _item(
    atlas: Atlas, group: FoldGroup, row: int, path: str, fold: str, totals: _Totals, *, whole_names: bool
) -> Item:
    members = group.members
    nodes = int(totals.nodes[row])
    share = totals.phase[row] / max(nodes, 1)
    common: dict[str, Any] = {
        "nodes": nodes,
        "members": len(members),
        "bytes": int(totals.bytes[row]),
        "phase": PHASES[int(share.argmax())] if share.max() >= _MOSTLY else "mixed",
        "device": totals.device[row],
        "value": None if totals.value is None else float(totals.value[row]),
    }
    if len(members) > 1:
        ops = np.unique(members.op())
        op = atlas.ops[int(ops[0])] if len(ops) == 1 and ops[0] < len(atlas.ops) else None
        key = "|".join((path, *filter(None, (fold, group.step))))
        return Item(key, group.kind, fold_label(group), op=op, **common)
    identity, name = int(members.id[0]), members.name(0)
    if members.is_scope[0]:
        return Item(name, "scope", members.label(0), **common)
    read = read_node(atlas, identity)
    outputs = outputs_of(atlas, identity, read)
    return Item(
        name,
        "node",
        name if whole_names else members.label(0),
        op=atlas.op_of(identity),
        dtype=atlas.dtype_of(identity),
        shape=shape_text(outputs[0].shape) or None if outputs else None,
        calls=atlas.calls_of(identity),
        **common,
    )


def fold_label(group: FoldGroup) -> str:
    """What a fold is called: the first and the last of a series, the op of a cluster, what its names begin with."""
    members, step = group.members, group.step
    if step.startswith("*op "):
        return step.removeprefix("*op ")
    if step.startswith("*"):
        return {"*scopes": "scopes", "*other": "other ops", "*rest": "others"}[step]
    first, last = members.label(0), members.label(len(members) - 1)
    # Names that differ in their numbers alone are told by the first and the last of them.
    is_numbered = _NUMBER.sub("", first) == _NUMBER.sub("", last)
    return f"{first} … {last}" if group.kind == RANGE or (group.kind == SERIES and is_numbered) else f"{step}…"
