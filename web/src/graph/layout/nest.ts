// Open boxes inside open boxes: each screen is laid out on its own, and its size goes into the layout around it.
import { placeBoxes, type PlacedBoxes } from './sheet';
import { gaps, type Cell, type PlacedCell, type PlacedSheet, type Sheet } from './shapes';

/** Layouts that were computed before, by what they depend on; opening one box leaves most screens as they were. */
export type Remembered = Map<string, PlacedBoxes>;

const mostRemembered = 400;

export function layoutSheet(sheet: Sheet, remembered: Remembered = new Map()): PlacedSheet {
  const cells = sheet.cells.map((cell) => layoutCell(cell, remembered));
  const boxes = placeOnce(sheet, cells, remembered);
  const width = Math.max(boxes.width + 2 * gaps.margin, sheet.leastWidth);
  const left = (width - boxes.width) / 2;
  const top = sheet.top + gaps.margin;
  return {
    width,
    height: top + boxes.height + gaps.margin + sheet.bottom,
    cells: cells.map((cell, position) => ({
      ...cell, x: left + (boxes.corners[position]?.x ?? 0), y: top + (boxes.corners[position]?.y ?? 0),
    })),
    routes: boxes.routes.map((route) => route.map((value, place) => value + (place % 2 === 0 ? left : top))),
  };
}

function layoutCell(cell: Cell, remembered: Remembered): PlacedCell {
  if (!cell.inner) return { x: 0, y: 0, width: cell.width, height: cell.height, inner: null };
  const inner = layoutSheet(cell.inner, remembered);
  return { x: 0, y: 0, width: inner.width, height: inner.height, inner };
}

function placeOnce(sheet: Sheet, cells: PlacedCell[], remembered: Remembered): PlacedBoxes {
  const key = `${sheet.name}\n${sheet.edges.length}\n${cells.map(({ width, height }) => `${width}×${height}`).join(' ')}`;
  const known = remembered.get(key);
  if (known) return known;
  const placed = placeBoxes(cells, sheet.edges);
  if (remembered.size >= mostRemembered) remembered.delete(remembered.keys().next().value as string);
  remembered.set(key, placed);
  return placed;
}
