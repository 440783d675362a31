"""A screen: the content of a scope or a fold, as a bounded number of items and bundled edges."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Floats, Indices, offsets
from lowtide.atlas.index.phases import PHASES
from lowtide.atlas.labels import distinct_labels
from lowtide.atlas.node_details import outputs_of
from lowtide.atlas.node_message import read_node, shape_text
from lowtide.atlas.screens.edge_bundles import Bundles, Ranges, bundle, release_after_chunk
from lowtide.atlas.screens.folding import NAME, OP, RANGE, SERIES, FoldError, FoldGroup, fold_members, unescape, unfold
from lowtide.atlas.screens.scope_entries import ScopeEntries
from lowtide.errors import LowtideError

# Only the heaviest bundles are drawn.
MOST_EDGES = 400
_NUMBER = re.compile(r"_?\d+")
# Ops that hold, read, copy or reshape values; every scope is full of them.
_CARRYING = frozenset(
    ("Const", "HostConst", "Identity", "IdentityN", "NoOp", "StopGradient", "_Arg", "_Retval", "Placeholder")
    + ("VarHandleOp", "VariableV2", "ReadVariableOp", "Shape", "ShapeN", "Size", "Rank", "Cast", "Reshape", "Squeeze")
    + ("ExpandDims", "StridedSlice", "Pack", "BroadcastGradientArgs", "BroadcastTo", "Fill", "Switch", "Merge")
)
# A group has a phase if this share of its nodes has it.
_MOSTLY = 0.95


class Values(Protocol):
    """An amount for each node; the sum or the largest over a group is shown as its colour."""

    is_summed: bool

    def __call__(self, nodes: Indices, /) -> Floats:
        """Return the amounts of some nodes."""
        ...


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a screen: a node, a scope, or a fold of several entries."""

    key: str
    kind: str
    label: str
    nodes: int
    members: int
    bytes: int
    phase: str
    op: str | None = None
    main_op: str | None = None
    """The most frequent op of a group of several ops, without constants and the like unless it has nothing else."""
    device: str | None = None
    dtype: str | None = None
    shape: str | None = None
    value: float | None = None
    calls: list[int] = field(default_factory=list)
    change: str | None = None


ScreenEdge = tuple[int, int, int, int, int, str | None]
"""Source item, target item, number of edges, bytes, number of control edges, and the shape if it is one tensor."""


@dataclass(frozen=True, slots=True)
class Screen:
    """The content of one scope or fold."""

    part: int
    path: str
    fold: str
    title: str
    nodes: int
    children: int
    items: list[Item]
    edges: list[ScreenEdge]
    incoming: list[tuple[int, int, int]]
    outgoing: list[tuple[int, int, int]]
    hidden_items: int = 0
    hidden_edges: int = 0
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the screen as plain data."""
        return asdict(self)


def make_screen(atlas: Atlas, part: int = 0, path: str = "", fold: str = "", values: Values | None = None) -> Screen:
    """Return the screen of a scope, or of a fold in it."""
    members, prefix = entries_of(atlas, part, path, fold)
    groups = fold_members(members, fold, prefix)
    title = fold.rpartition("|")[2] or path.rpartition("/")[2] or atlas.parts[part] or "graph"
    return _build_screen(atlas, groups, part, path, fold, title, len(members), values)


def entries_of(atlas: Atlas, part: int, path: str, fold: str) -> tuple[ScopeEntries, int]:
    """Return the entries of a scope, or of a fold in it, and the length of the prefix that their names share."""
    scope = atlas.find_scope(path, part) if 0 <= part < len(atlas.parts) else None
    if scope is None:
        raise LowtideError("there is no such scope in the graph", given=path or f"part {part}", cure="search for it")
    try:
        return unfold(ScopeEntries.of(atlas, scope), fold)
    except FoldError as error:
        raise LowtideError(str(error), cure="open the scope that it is in") from error


def make_node_screen(
    atlas: Atlas, nodes: Indices, part: int, title: str, hidden: int = 0, values: Values | None = None
) -> Screen:
    """Return a screen of some nodes of any scopes."""
    members = ScopeEntries.of_nodes(atlas, np.sort(nodes))
    groups = [FoldGroup(members.take(np.array([row]))) for row in range(len(members))]
    screen = _build_screen(atlas, groups, part, "", "", title, len(members), values)
    labels = distinct_labels([item.key for item in screen.items])
    items = [replace(item, label=label) for item, label in zip(screen.items, labels, strict=True)]
    return replace(screen, items=items, hidden_items=hidden)


def _build_screen(
    atlas: Atlas,
    groups: list[FoldGroup],
    part: int,
    path: str,
    fold: str,
    title: str,
    children: int,
    values: Values | None,
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
    items = [_item(atlas, group, row, path, fold, totals) for row, group in enumerate(groups)]
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
        [_edge(atlas, bundles, row) for row in np.sort(heaviest)],
        [
            (int(row), int(bundles.incoming[row]), int(bundles.incoming_bytes[row]))
            for row in np.flatnonzero(bundles.incoming)
        ],
        [(int(row), int(bundles.outgoing[row]), 0) for row in np.flatnonzero(bundles.outgoing)],
        hidden_edges=len(bundles.count) - len(heaviest),
    )


def _edge(atlas: Atlas, bundles: Bundles, row: int) -> ScreenEdge:
    columns = (bundles.source, bundles.target, bundles.count, bundles.bytes, bundles.control)
    source, target, count, size, control = (int(column[row]) for column in columns)
    shape = None
    if bundles.has_one_tensor[row]:
        shape = tensor_shape(atlas, int(bundles.tensor_node[row]), int(bundles.tensor_port[row]))
    return source, target, count, size, control, shape


def tensor_shape(atlas: Atlas, node: int, port: int) -> str | None:
    """Return the shape of an output as text; None if it is not known."""
    outputs = outputs_of(atlas, node, read_node(atlas, node))
    return shape_text(outputs[port].shape) or None if port < len(outputs) else None


@dataclass(frozen=True, slots=True)
class _Totals:
    """Sums over the nodes of each group."""

    nodes: Indices
    bytes: Indices
    phase: Floats
    """The number of nodes of each phase, by group."""
    device: list[str | None]
    main_op: list[str | None]
    value: Floats | None


def _totals(atlas: Atlas, ranges: Ranges, values: Values | None) -> _Totals:
    count = ranges.count
    sizes, phases = np.zeros(count), np.zeros(count * len(PHASES))
    value = np.zeros(count)
    is_on = np.zeros((count, len(atlas.devices)), np.bool_)
    ops = np.zeros(count * len(atlas.ops))
    for nodes, groups in ranges.chunks():
        first = atlas.first_tensor
        low, high = int(first[nodes.min()]), int(first[int(nodes.max()) + 1])
        running = offsets(atlas.tensor_bytes[low:high])
        sizes += np.bincount(groups, running[first[nodes + 1] - low] - running[first[nodes] - low], minlength=count)
        phases += np.bincount(groups * len(PHASES) + atlas.phase[nodes], minlength=count * len(PHASES))
        is_on[groups, atlas.device[nodes]] = True
        ops += np.bincount(groups * len(atlas.ops) + atlas.op[nodes], minlength=count * len(atlas.ops))
        if values is not None:
            if values.is_summed:
                value += np.bincount(groups, values(nodes), minlength=count)
            else:
                np.maximum.at(value, groups, values(nodes))
        release_after_chunk(atlas, nodes)
    nodes_in = np.bincount(ranges.group, ranges.last - ranges.first, minlength=count)
    return _Totals(
        nodes_in.astype(np.int64),
        sizes.astype(np.int64),
        phases.reshape(count, len(PHASES)),
        # The device is given if all nodes of the group have the same.
        [atlas.devices[int(row.argmax())] or None if np.count_nonzero(row) == 1 else None for row in is_on],
        _main_ops(atlas, ops.reshape(count, len(atlas.ops))),
        None if values is None else value,
    )


def _main_ops(atlas: Atlas, counts: Floats) -> list[str | None]:
    """Return the most frequent op of each group; ops that only carry values count if a group has no others."""
    is_plain = np.array([op in _CARRYING for op in atlas.ops], np.bool_)
    weights = np.where(is_plain, counts * 1e-9, counts)
    return [atlas.ops[int(row.argmax())] if row.any() else None for row in weights]


def _item(atlas: Atlas, group: FoldGroup, row: int, path: str, fold: str, totals: _Totals) -> Item:
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
        return Item(key, group.kind, fold_label(group), op=op, main_op=totals.main_op[row], **common)
    identity, name = int(members.id[0]), members.name(0)
    if members.is_scope[0]:
        return Item(name, "scope", members.label(0), main_op=totals.main_op[row], **common)
    read = read_node(atlas, identity)
    outputs = outputs_of(atlas, identity, read)
    return Item(
        name,
        "node",
        members.label(0),
        op=atlas.op_of(identity),
        dtype=atlas.dtype_of(identity),
        shape=shape_text(outputs[0].shape) or None if outputs else None,
        calls=atlas.calls_of(identity),
        **common,
    )


def fold_label(group: FoldGroup) -> str:
    """Label a fold: the first and last of a series or range, the op, the name, or the common prefix of the names."""
    members, step = group.members, group.step
    if step.startswith(OP):
        return step.removeprefix(OP)
    if step.startswith(NAME):
        return unescape(step.removeprefix(NAME))
    if step.startswith("*"):
        return {"*scopes": "scopes", "*other": "other ops", "*rest": "others"}[step]
    first, last = members.label(0), members.label(len(members) - 1)
    # Names that differ only in numbers are described by the first and the last.
    is_numbered = _NUMBER.sub("", first) == _NUMBER.sub("", last)
    return f"{first} … {last}" if group.kind == RANGE or (group.kind == SERIES and is_numbered) else f"{step}…"
