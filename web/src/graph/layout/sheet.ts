// The layout of one screen: connected components, packed beside and below each other.
import { placeGroup, type PlacedGroup, type Point, type Size } from './group';
import { findGroups, type Edge } from './ranks';
import { routeEdges } from './routes';
import { gaps } from './shapes';

export interface PlacedBoxes {
  width: number;
  height: number;
  corners: Point[];
  routes: number[][];
}

export function placeBoxes(sizes: Size[], edges: Edge[]): PlacedBoxes {
  if (!sizes.length) return { width: 0, height: 0, corners: [], routes: [] };
  const widest = readableWidth(sizes, gaps.rank, 900);
  const corners: Point[] = sizes.map(() => ({ x: 0, y: 0 }));
  const bends = new Map<number, Point[]>();
  const groups = findGroups(sizes.length, edges).map((cells) => placePart(cells, sizes, edges, widest));
  const placedGroups = groups.map(({ placed }) => placed);
  const shelf = packShelves(placedGroups, readableWidth(placedGroups, gaps.shelf, 500));
  groups.forEach(({ cells, positions, placed }, group) => {
    const { x, y } = shelf.corners[group] as Point;
    placed.corners.forEach((corner, cell) => {
      corners[cells[cell] as number] = { x: corner.x + x, y: corner.y + y };
    });
    for (const [position, points] of placed.bends) {
      bends.set(positions[position] as number, points.map((point) => ({ x: point.x + x, y: point.y + y })));
    }
  });
  const rectangles = sizes.map(({ width, height }, cell) => ({ ...(corners[cell] as Point), width, height }));
  return makeRoom({ width: shelf.width, height: shelf.height, corners, routes: routeEdges(rectangles, edges, bends) });
}

/** As wide as its curves too: some go around the boxes, and would be drawn across the frame or outside of the window. */
function makeRoom({ width, height, corners, routes }: PlacedBoxes): PlacedBoxes {
  const across = routes.flatMap((route) => route.filter((_, place) => place % 2 === 0));
  const left = across.reduce((least, x) => Math.min(least, x), 0);
  const right = across.reduce((most, x) => Math.max(most, x), width);
  return {
    width: right - left,
    height,
    corners: corners.map(({ x, y }) => ({ x: x - left, y })),
    routes: routes.map((route) => route.map((value, place) => (place % 2 === 0 ? value - left : value))),
  };
}

// About half as wide again as high when everything is packed, and never so narrow that a few boxes wrap.
function readableWidth(sizes: Size[], gapBelow: number, least: number): number {
  const area = sizes.reduce((sum, { width, height }) => sum + (width + gaps.cell) * (height + gapBelow), 0);
  return Math.max(least, 1.5 * Math.sqrt(area), ...sizes.map(({ width }) => width));
}

interface Group {
  cells: number[];
  positions: number[];
  placed: PlacedGroup;
}

function placePart(cells: number[], sizes: Size[], edges: Edge[], widest: number): Group {
  const own = cells.map((cell) => sizes[cell] as Size);
  if (cells.length === 1) {
    return { cells, positions: [], placed: { width: own[0]?.width ?? 0, height: own[0]?.height ?? 0, corners: [{ x: 0, y: 0 }], bends: new Map() } };
  }
  const place = new Map(cells.map((cell, position) => [cell, position]));
  const positions = edges.flatMap(([from], position) => (place.has(from) ? [position] : []));
  const inner = positions.map((position): Edge => {
    const [from, to, weight] = edges[position] as Edge;
    return [place.get(from) ?? 0, place.get(to) ?? 0, weight];
  });
  return { cells, positions, placed: placeGroup(own, inner, widest) };
}

/** Left to right, then a new shelf; the order is kept, so that groups stand where the server listed them. */
function packShelves(sizes: Size[], widest: number): { width: number; height: number; corners: Point[] } {
  const corners: Point[] = [];
  let x = 0;
  let y = 0;
  let shelf = 0;
  let width = 0;
  for (const size of sizes) {
    if (x > 0 && x + size.width > widest) {
      x = 0;
      y += shelf + gaps.shelf;
      shelf = 0;
    }
    corners.push({ x, y });
    x += size.width + gaps.cell;
    width = Math.max(width, x - gaps.cell);
    shelf = Math.max(shelf, size.height);
  }
  return { width, height: y + shelf, corners };
}
