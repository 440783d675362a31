"""Fold thousands of nodes and scopes into a number of groups that fits on a screen.

Names are split at separators: `conv2_block1_1_conv` belongs to `conv2`, then to `conv2_block1` and so on, as if these
were scopes. The largest group is split repeatedly while there is room on the screen. Entries that names do not separate
are grouped by op, and entries that are alike in both are divided into ranges.

A fold is a path from a scope to a group, with steps separated by `|`: a prefix of names (`conv2`), a whole name that
several entries have (`*name=conv2`), an op (`*op Const`), all scopes (`*scopes`), rare ops (`*other`), entries outside
of the largest prefixes (`*rest`), or a range in the order of the file (`@0-999`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from lowtide.atlas.index.arrays import Indices
from lowtide.atlas.index.text import next_name_parts, starting_with
from lowtide.atlas.screens.scope_entries import ScopeEntries

LIMIT = 60
"""The most items of a screen, where folding can reach it."""
MOST = 120
"""Up to this number, the members of a fold are shown one by one."""

SERIES, CLUSTER, RANGE = "series", "cluster", "range"
_SEPARATORS = b"_.:-/"
OP, NAME = "*op ", "*name="
_SCOPES, _OTHER, _REST = "*scopes", "*other", "*rest"
_RANGE = re.compile(r"@(\d+)-(\d+)")


@dataclass(frozen=True, slots=True, eq=False)
class FoldGroup:
    """Members that are shown as one item; a group of one member is shown as that member."""

    members: ScopeEntries
    step: str = ""
    """The step from the fold above to this group."""
    kind: str = CLUSTER
    prefix: int = 0
    """The length in bytes of the common prefix of the names, up to a separator."""


class FoldError(ValueError):
    """A fold that matches nothing."""


def unfold(members: ScopeEntries, fold: str) -> tuple[ScopeEntries, int]:
    """Follow a fold; return its members, and the length of the name prefix that its steps use."""
    prefix = 0
    for step in filter(None, fold.split("|")):
        if ranged := _RANGE.fullmatch(step):
            low, high = int(ranged[1]), int(ranged[2])
            members = members.take(_in_file_order(members)[low : high + 1])
        elif step.startswith(OP):
            op = step.removeprefix(OP)
            number = members.atlas.ops.index(op) if op in members.atlas.ops else -1
            members = members.take(members.op() == number)
        elif step.startswith(NAME):
            text_number = members.atlas.number_of(unescape(step.removeprefix(NAME)))
            members = members.take(members.text == (-1 if text_number is None else text_number))
        elif step == _SCOPES:
            members = members.take(members.is_scope)
        elif step == _OTHER:
            members = members.take(np.isin(members.op(), _rare_ops(members)))
        elif step == _REST:
            members = _rest(members, _largest(members, prefix))
        else:
            text = unescape(step)
            members = members.take(_begins(members, text))
            prefix = len(text.encode(errors="surrogateescape"))
        if not len(members):
            raise FoldError(f"no such fold: {fold}")
    return members, prefix


def fold_members(members: ScopeEntries, fold: str = "", prefix: int = 0) -> list[FoldGroup]:
    """Group members, with at most as many groups as fit on a screen, in the order of the file.

    `fold` is the path to these members: if its last step is not a name prefix, they are not grouped by name again.
    """
    step = fold.rpartition("|")[2]
    if len(members) <= (MOST if fold else LIMIT):
        groups = [FoldGroup(members.take(np.array([row]))) for row in range(len(members))]
    elif step == _REST:
        groups = _by_kind(members)
    elif step.startswith(("*", "@")):
        groups = _ranges(members)
    else:
        groups = _by_name(members, prefix) or _largest_and_rest(members, prefix) or _by_kind(members)
    if len(groups) == 1 and len(members) > 1:
        groups = _ranges(members)
    return sorted(groups, key=lambda group: int(group.members.first.min()))


# -- by name ----------------------------------------------------------------------------------------------


def _by_name(members: ScopeEntries, prefix: int) -> list[FoldGroup] | None:
    """Split by the next part of the names, then split the largest group repeatedly, while there is room.

    Return None if the names have more distinct parts than fit on a screen.
    """
    whole = FoldGroup(members, prefix=prefix)
    groups = _split(whole, MOST)
    # A part that all names share does not separate them.
    while groups is not None and len(groups) == 1 and groups[0].prefix > whole.prefix:
        whole = groups[0]
        groups = _split(whole, MOST)
    if groups is None:
        return None
    done: list[FoldGroup] = []
    while groups:
        largest = max(groups, key=lambda group: len(group.members))
        groups.remove(largest)
        room = LIMIT - len(groups) - len(done)
        parts = _split(largest, room) if len(largest.members) > 1 else None
        if parts is None or (len(parts) == 1 and parts[0].prefix == largest.prefix):
            done.append(largest)
        else:
            groups += parts
    return done


def _split(group: FoldGroup, most: int) -> list[FoldGroup] | None:
    """Split by the next part of the names, up to a separator; None if that gives more than `most` groups."""
    parts = _NameParts.of(group)
    return parts.groups(np.arange(len(parts.count))) if len(parts.count) <= most else None


@dataclass(frozen=True, slots=True, eq=False)
class _NameParts:
    """The members of a group by the next part of their names."""

    group: FoldGroup
    length: Indices
    """The length of the next part of each member's name."""
    order: Indices
    """Rows sorted by part."""
    count: Indices
    """The number of members with each part."""

    @staticmethod
    def of(group: FoldGroup) -> _NameParts:
        members = group.members
        starts, ends = members.spans()
        length, hashes = next_name_parts(members.atlas.texts, starts + group.prefix, ends, _SEPARATORS)
        _, which, count = np.unique(hashes, return_inverse=True, return_counts=True)
        return _NameParts(group, length, np.argsort(which, kind="stable"), count)

    def groups(self, parts: Indices) -> list[FoldGroup]:
        """Return some of the parts as groups."""
        members, ends = self.group.members, np.cumsum(self.count)
        found = []
        for part in parts.tolist():
            rows = self.order[ends[part] - self.count[part] : ends[part]]
            inside = members.take(np.sort(rows))
            prefix = self.group.prefix + int(self.length[rows[0]])
            begin = int(inside.spans()[0][0])
            text = members.atlas.texts[begin : begin + prefix].tobytes().decode(errors="surrogateescape")
            # A prefix that is the whole name would also match the longer names beside it.
            step = _escape(text) if prefix > self.group.prefix else NAME + _escape(text)
            found.append(FoldGroup(inside, step, _kind_of(inside), prefix))
        return found


def _begins(members: ScopeEntries, text: str) -> Indices:
    """Return the members whose names start with `text`, followed by a separator or the end."""
    wanted = text.encode(errors="surrogateescape")
    starts, ends = members.spans()
    rows = starting_with(members.atlas.texts, starts, ends, wanted)
    behind = starts[rows] + len(wanted)
    at_end = behind == ends[rows]
    following = members.atlas.texts[np.where(at_end, 0, behind)]
    whole = rows[at_end | np.isin(following, np.frombuffer(_SEPARATORS, np.uint8))]
    # A very long part of a name is cut where there is no separator.
    return whole if len(whole) else rows


def _kind_of(members: ScopeEntries) -> str:
    """Return SERIES if all members have one op or are scopes, else CLUSTER."""
    ops = members.op()
    return SERIES if len(ops) and (ops == ops[0]).all() else CLUSTER


# -- by kind, and in ranges -------------------------------------------------------------------------------


def _largest(members: ScopeEntries, prefix: int) -> list[FoldGroup]:
    """Return the most frequent name parts as groups, for half of a screen."""
    whole = FoldGroup(members, prefix=prefix)
    parts = _NameParts.of(whole)
    while len(parts.count) == 1 and parts.length.max() > 0:
        whole = parts.groups(np.array([0]))[0]
        parts = _NameParts.of(whole)
    by_count = np.argsort(-parts.count, kind="stable")[: LIMIT // 2]
    return parts.groups(by_count[parts.count[by_count] > 1])


def _largest_and_rest(members: ScopeEntries, prefix: int) -> list[FoldGroup]:
    kept = _largest(members, prefix)
    left = _rest(members, kept)
    return [*kept, FoldGroup(left, _REST)] if kept and len(left) else kept


def _rest(members: ScopeEntries, kept: list[FoldGroup]) -> ScopeEntries:
    """Return the members in none of the groups."""
    taken = [_identity(group.members) for group in kept]
    return members.take(~np.isin(_identity(members), np.concatenate(taken))) if taken else members


def _identity(members: ScopeEntries) -> Indices:
    return members.id * 2 + members.is_scope


def _by_kind(members: ScopeEntries) -> list[FoldGroup]:
    """Group by op: one group for each frequent op, one for all rare ops, one for all scopes."""
    ops, rare = members.op(), _rare_ops(members)
    groups = [
        FoldGroup(members.take(ops == op), OP + members.atlas.ops[op])
        for op in np.unique(ops)
        if op < len(members.atlas.ops) and op not in rare
    ]
    is_rare = np.isin(ops, rare)
    if members.is_scope.any():
        groups.append(FoldGroup(members.take(members.is_scope), _SCOPES))
    if is_rare.any():
        groups.append(FoldGroup(members.take(is_rare), _OTHER))
    return groups


def _rare_ops(members: ScopeEntries) -> Indices:
    """Return the ops that share one group: all but the most frequent ones, which fill a third of a screen."""
    counts = np.bincount(members.op(), minlength=len(members.atlas.ops) + 1)[: len(members.atlas.ops)]
    order = np.argsort(-counts, kind="stable")
    return np.sort(order[LIMIT // 3 :])


def _ranges(members: ScopeEntries) -> list[FoldGroup]:
    """Divide members into ranges of equal size in the order of the file; the size is a round number."""
    order = _in_file_order(members)
    least = max(-(-len(members) // LIMIT), 10)
    power = 10 ** (len(str(least)) - 1)
    size = next(power * step for step in (1, 2, 5, 10) if power * step >= least)
    return [
        FoldGroup(members.take(order[low : low + size]), f"@{low}-{min(low + size, len(members)) - 1}", RANGE)
        for low in range(0, len(members), size)
    ]


def _in_file_order(members: ScopeEntries) -> Indices:
    return np.argsort(members.atlas.position[members.first], kind="stable")


def _escape(text: str) -> str:
    """Escape a name prefix as a step of a fold."""
    text = text.replace("%", "%25").replace("|", "%7C")
    return re.sub(r"^[*@]", lambda first: f"%{ord(first[0]):02X}", text)


def unescape(text: str) -> str:
    """Return the name prefix of an escaped step."""
    for code, character in (("%7C", "|"), ("%2A", "*"), ("%40", "@"), ("%25", "%")):
        text = text.replace(code, character)
    return text
