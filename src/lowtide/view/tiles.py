"""The address space over the step as rectangles: one for each large buffer, small buffers merged into cells."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lowtide.tide.address_space import pinnings_at, placed_rows, spans_of
from lowtide.tide.kinds import KINDS
from lowtide.tide.tide import Tide

# Enough to show everything larger than a pixel, and few enough for a page to draw without delay.
TILES = 6000
# If the space has more pieces than this, only the largest are drawn and marked.
_BANDS, _FOLDS = 500, 40
# The height of a gap that no buffer ever covers, and of all such gaps together, as a share of the picture.
_FOLD = 0.02
_ALL_FOLDS = 0.25
# The number of shades of merged cells.
_SHADES = 4


@dataclass(frozen=True)
class Tile:
    """A rectangle: events from left to right, shares of the height from the bottom up."""

    born: float
    died: float
    low: float
    high: float
    kind: str
    row: int | None
    """The buffer; None for a cell of many small buffers, most of whose bytes are of `kind`."""
    shade: float = 1.0
    """The share of the cell that is in use."""


@dataclass(frozen=True)
class Fold:
    """A gap between used addresses, drawn smaller than it is."""

    low: float
    high: float
    bytes: int


@dataclass(frozen=True)
class Band:
    """A piece of the address space that the step uses, with no gap in it."""

    low: float
    high: float
    below_bytes: int
    """The bytes of all bands below this one."""
    bytes: int


@dataclass(frozen=True, eq=False)
class AddressScale:
    """Maps addresses to shares of the picture's height."""

    bands: tuple[Band, ...]
    folds: tuple[Fold, ...]
    addresses: npt.NDArray[np.float64]
    heights: npt.NDArray[np.float64]

    @property
    def bytes(self) -> int:
        """The bytes of the address space that the step uses, without gaps."""
        return sum(band.bytes for band in self.bands)

    @property
    def largest_bands(self) -> list[Band]:
        """The bands to draw: all, or the largest if there are too many."""
        return sorted(self.bands, key=lambda band: -band.bytes)[:_BANDS]

    @property
    def largest_folds(self) -> list[Fold]:
        """The folds to mark: all, or the largest if there are too many."""
        return sorted(self.folds, key=lambda fold: -fold.bytes)[:_FOLDS]

    def height_of(self, addresses: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the heights of addresses."""
        return np.interp(addresses, self.addresses, self.heights)

    def height_of_amount(self, amount: int) -> float:
        """Return the height below which `amount` bytes of the used space are."""
        for band in self.bands:
            if amount <= band.below_bytes + band.bytes:
                return band.low + (amount - band.below_bytes) / band.bytes * (band.high - band.low)
        return 1.0


def address_scale(tide: Tide) -> AddressScale:
    """Return a scale that gives nearly all the height to addresses that the step uses."""
    spans = spans_of(tide)
    if not spans:
        return AddressScale((), (), np.zeros(1), np.zeros(1))
    gaps = np.array([after.start - before.end for before, after in pairwise(spans)], np.float64)
    sizes = np.array([span.bytes for span in spans], np.float64)
    fold = min(_FOLD, _ALL_FOLDS / max(len(gaps), 1))
    # A gap that is smaller than a fold is drawn to scale.
    per_byte = (1 - fold * len(gaps)) / sizes.sum()
    shown = np.minimum(gaps * per_byte, fold)
    heights = np.zeros(2 * len(spans))
    heights[1::2] = sizes * per_byte
    heights[2::2] = shown
    heights = np.cumsum(heights)
    heights /= heights[-1]
    edges = heights.tolist()
    below = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64).tolist()
    bands = tuple(
        Band(edges[2 * index], edges[2 * index + 1], below[index], span.bytes) for index, span in enumerate(spans)
    )
    folds = tuple(
        Fold(edges[2 * index + 1], edges[2 * index + 2], int(gaps[index]))
        for index in np.flatnonzero(gaps * per_byte > fold).tolist()
    )
    addresses = np.array([edge for span in spans for edge in (span.start, span.end)], np.float64)
    return AddressScale(bands, folds, addresses, heights)


def tiles_of(tide: Tide, scale: AddressScale, most: int) -> list[Tile]:
    """Return at most `most` rectangles that show every buffer, those of the largest area one by one."""
    rows = placed_rows(tide)
    address = tide.buffers.address
    assert address is not None  # placed_rows has said so otherwise
    low, high = scale.height_of(address[rows]), scale.height_of(address[rows] + tide.buffers.allocated[rows])
    area = (high - low) * (tide.buffers.died[rows] - tide.buffers.born[rows])
    if len(rows) > most:
        # Buffers that pin holes are small, but they are what the user looks for.
        pinning = [pinning.row for pinning in pinnings_at(tide, tide.peak_event)]
        area[np.isin(rows, pinning)] = np.inf
    order = np.argsort(-area, kind="stable")
    exact, rest = (order, order[:0]) if len(rows) <= most else (order[: most // 2], order[most // 2 :])
    buffers = tide.buffers
    tiles = [
        Tile(
            float(buffers.born[rows[place]]),
            float(buffers.died[rows[place]]),
            float(low[place]),
            float(high[place]),
            buffers.kind_of(int(rows[place])),
            int(rows[place]),
        )
        for place in exact.tolist()
    ]
    # Cells are drawn first, so that they never hide a single buffer.
    return _merged(tide, rows[rest], low[rest], high[rest], most - len(tiles)) + tiles if rest.size else tiles


def _merged(
    tide: Tide,
    rows: npt.NDArray[np.intp],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    most: int,
) -> list[Tile]:
    """Return the cells of the finest grid that has at most `most` rectangles."""
    columns, lines = 256, 192
    while True:
        tiles = _cells(tide, rows, low, high, columns, lines)
        if len(tiles) <= most or columns == 1:
            return tiles[:most]
        columns, lines = max(columns * 3 // 4, 1), max(lines * 3 // 4, 1)


def _cells(
    tide: Tide,
    rows: npt.NDArray[np.intp],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    columns: int,
    lines: int,
) -> list[Tile]:
    buffers, events = tide.buffers, len(tide.curve)
    born = buffers.born[rows].astype(np.float64) * columns / events
    died = buffers.died[rows].astype(np.float64) * columns / events
    covered = _coverage(buffers.kind[rows], (born, died), (low * lines, high * lines), (columns, lines))
    shades = np.ceil(np.minimum(covered.sum(axis=0), 1) * _SHADES - 0.05).astype(int)
    kinds = covered.argmax(axis=0)
    tiles = []
    for line in range(lines):
        looks = shades[line] * len(KINDS) + kinds[line]
        edges = [0, *(np.flatnonzero(np.diff(looks)) + 1).tolist(), columns]
        for start, stop in pairwise(edges):
            if shades[line, start] > 0:
                from_event, to_event = start * events / columns, stop * events / columns
                kind, shade = KINDS[kinds[line, start]], float(shades[line, start] / _SHADES)
                tiles.append(Tile(from_event, to_event, line / lines, (line + 1) / lines, kind, None, shade))
    return tiles


def _coverage(
    kind: npt.NDArray[np.uint8],
    across: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    upward: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    grid: tuple[int, int],
) -> npt.NDArray[np.float64]:
    """Return share[kind, line, column]: the part of each cell of the grid that rectangles of each kind cover."""
    (columns, lines), (low, high) = grid, upward
    # A rectangle covers part of its first cell and all of the following ones, until its end subtracts both again.
    part = np.zeros((len(KINDS), lines, columns + 1))
    whole = np.zeros((len(KINDS), lines, columns + 2))
    line = np.minimum(low.astype(int), lines - 1)
    while line.size:
        inside = np.minimum(high, line + 1) - np.maximum(low, line)
        for edge, sign in zip(across, (1, -1), strict=True):
            column = edge.astype(int)
            np.add.at(part, (kind, line, column), sign * inside * (1 - (edge - column)))
            np.add.at(whole, (kind, line, column + 1), sign * inside)
        line = line + 1
        more = (line < high) & (line < lines)
        kind, low, high, line = kind[more], low[more], high[more], line[more]
        across = (across[0][more], across[1][more])
    covered: npt.NDArray[np.float64] = part[:, :, :columns] + np.cumsum(whole, axis=2)[:, :, :columns]
    return np.maximum(covered, 0)
