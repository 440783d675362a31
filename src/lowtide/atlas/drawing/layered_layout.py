"""A layered (Sugiyama) layout: boxes in rows so that edges lead down, ordered so that few edges cross.

The row of a box is its longest path from the top, with a bounded row width; long edges bend around boxes. Rows are
ordered by the barycentre of the neighbours, and boxes are placed as near to their neighbours as the order allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

# The most boxes in a row, and the number of sweeps that improve order and positions.
ROW = 9
_SWEEPS = 12

BOX_WIDTH, BOX_HEIGHT = 176.0, 44.0
_BEND_WIDTH, _GAP, _ROW_GAP = 6.0, 16.0, 46.0

Point = tuple[float, float]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """The centre of each box, and the points of each edge."""

    boxes: list[Point]
    routes: list[list[Point]]
    width: float
    height: float


def lay_out(count: int, edges: Sequence[Pair]) -> Layout:
    """Lay out `count` boxes and the edges between them."""
    if not count:
        return Layout([], [[] for _ in edges], 0.0, 0.0)
    down = _break_cycles(count, edges)
    rows, chains = _bend(_rows(count, down), down)
    neighbours = _neighbours(chains, sum(map(len, rows)))
    _order(rows, neighbours)
    x = _place(rows, neighbours, count)
    row_of = {item: number for number, row in enumerate(rows) for item in row}
    points = [(x[item], row_of[item] * (BOX_HEIGHT + _ROW_GAP) + BOX_HEIGHT / 2) for item in range(len(row_of))]
    routes = [
        _route([points[item] for item in chain], reverse=pair != edge)
        for chain, pair, edge in zip(chains, down, edges, strict=True)
    ]
    height = len(rows) * (BOX_HEIGHT + _ROW_GAP) - _ROW_GAP
    return Layout(points[:count], routes, max(max(x), max(x[:count]) + BOX_WIDTH / 2), height)


def _break_cycles(count: int, edges: Sequence[Pair]) -> list[Pair]:
    """Return the edges, with those reversed that close a cycle."""
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        after[source].append(target)
    state = [0] * count
    finished: list[int] = []
    for root in range(count):
        stack = [root] if not state[root] else []
        while stack:
            box = stack[-1]
            if state[box] == 0:
                state[box] = 1
                stack += [each for each in reversed(after[box]) if state[each] == 0]
            else:
                stack.pop()
                if state[box] == 1:
                    state[box] = 2
                    finished.append(box)
    # Reverse postorder; an edge to an earlier box would lead up.
    place = {box: number for number, box in enumerate(reversed(finished))}
    return [(source, target) if place[source] <= place[target] else (target, source) for source, target in edges]


def _rows(count: int, edges: Sequence[Pair]) -> list[int]:
    """Return the row of each box: below its inputs, and near its readers."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        if source != target:
            before[target].append(source)
            after[source].append(target)
    order = _topological(before, after)
    depth = [0] * count
    for box in order:
        depth[box] = max((depth[each] + 1 for each in before[box]), default=0)
    lonely = max(depth) + 1
    for box in reversed(order):
        # Down to its first reader, unless that lengthens more edges than it shortens.
        if after[box] and len(before[box]) <= max(1, len(after[box]) - 1):
            depth[box] = min(depth[each] for each in after[box]) - 1
        elif not after[box] and not before[box]:
            depth[box] = lonely
    row, used = [0] * count, [0] * (count + max(depth) + 2)
    for box in sorted(order, key=lambda box: depth[box]):
        wanted = max([depth[box], *(row[each] + 1 for each in before[box])])
        while used[wanted] >= ROW:
            wanted += 1
        row[box] = wanted
        used[wanted] += 1
    # Empty rows are removed.
    number = {each: place for place, each in enumerate(sorted(set(row)))}
    return [number[each] for each in row]


def _topological(before: list[list[int]], after: list[list[int]]) -> list[int]:
    waiting = [len(each) for each in before]
    ready = [box for box, count in enumerate(waiting) if not count]
    for box in ready:
        for reader in after[box]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return ready


def _bend(row: list[int], edges: Sequence[Pair]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the items (boxes and bends) of each row, and the items along each edge."""
    rows: list[list[int]] = [[] for _ in range(max(row) + 1)]
    for box, number in enumerate(row):
        rows[number].append(box)
    fresh = len(row)
    chains = []
    for source, target in edges:
        chain = [source]
        for number in range(row[source] + 1, row[target]):
            rows[number].append(fresh)
            chain.append(fresh)
            fresh += 1
        chains.append([*chain, target])
    return rows, chains


@dataclass(frozen=True)
class _Neighbours:
    above: list[list[int]]
    below: list[list[int]]


def _neighbours(chains: list[list[int]], count: int) -> _Neighbours:
    found = _Neighbours([[] for _ in range(count)], [[] for _ in range(count)])
    for chain in chains:
        for high, low in pairwise(chain):
            if high != low:
                found.below[high].append(low)
                found.above[low].append(high)
    return found


def _order(rows: list[list[int]], neighbours: _Neighbours) -> None:
    """Sort each row by the mean position of its neighbours, in alternating sweeps down and up."""
    place = {item: float(number) for row in rows for number, item in enumerate(row)}
    for sweep in range(_SWEEPS):
        joined = neighbours.above if sweep % 2 == 0 else neighbours.below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            middle = {item: _mean([place[each] for each in joined[item]], place[item]) for item in row}
            row.sort(key=middle.__getitem__)
            # As shares of the row, so that rows of different lengths can be compared.
            place.update({item: (number + 0.5) / len(row) for number, item in enumerate(row)})


def _place(rows: list[list[int]], neighbours: _Neighbours, boxes: int) -> list[float]:
    """Return the centre of each item: near its neighbours, in the order of its row, without overlap."""
    x = [0.0] * sum(map(len, rows))
    for row in rows:
        at = 0.0
        for item, apart in zip(row, [0.0, *_distances(row, boxes)], strict=True):
            at += apart
            x[item] = at
        for item in row:
            x[item] -= at / 2
    for sweep in range(_SWEEPS):
        joined = neighbours.above if sweep % 2 == 0 else neighbours.below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [_mean([x[each] for each in joined[item]], x[item]) for item in row]
            for item, found in zip(row, _spread(wanted, _distances(row, boxes)), strict=True):
                x[item] = found
    left = min(min(x), min(x[:boxes]) - BOX_WIDTH / 2)
    return [each - left for each in x]


def _spread(wanted: list[float], apart: list[float]) -> list[float]:
    """Return the least-squares positions that keep the order and the minimum distances."""
    shift = [0.0]
    for each in apart:
        shift.append(shift[-1] + each)
    # Isotonic regression after subtracting the distances: pool adjacent violators.
    runs: list[tuple[float, int]] = []
    for place, offset in zip(wanted, shift, strict=True):
        mean, size = place - offset, 1
        while runs and runs[-1][0] > mean:
            other, count = runs.pop()
            mean, size = (mean * size + other * count) / (size + count), size + count
        runs.append((mean, size))
    flat = [mean for mean, size in runs for _ in range(size)]
    return [mean + offset for mean, offset in zip(flat, shift, strict=True)]


def _route(points: list[Point], *, reverse: bool) -> list[Point]:
    """Return the points from the bottom of the upper box to the top of the lower one; reversed if the edge was."""
    (first_x, first_y), (last_x, last_y) = points[0], points[-1]
    route = [(first_x, first_y + BOX_HEIGHT / 2), *points[1:-1], (last_x, last_y - BOX_HEIGHT / 2)]
    return route[::-1] if reverse else route


def _distances(row: list[int], boxes: int) -> list[float]:
    """Return the minimum distances of adjacent centres in a row; bends may be close to each other."""
    widths = [BOX_WIDTH if item < boxes else _BEND_WIDTH for item in row]
    return [(one + other) / 2 + (_GAP if max(one, other) > _BEND_WIDTH else 0.0) for one, other in pairwise(widths)]


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
