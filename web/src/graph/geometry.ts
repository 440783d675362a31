// Where everything of a scene is, in the scene's own coordinates.
import type { ScreenEdge } from '../api';
import type { PlacedSheet } from './layout/shapes';
import type { Box, Scene, Sheet } from './scene';

export interface Rectangle {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface PlacedEdge {
  from: string;
  to: string;
  edge: ScreenEdge;
  /** A start and cubic curves of six numbers each. */
  route: number[];
}

export interface Geometry {
  width: number;
  height: number;
  /** By id, parents before what is inside them. */
  boxes: Map<string, { box: Box; rectangle: Rectangle }>;
  /** By the id of the box that holds the sheet, '' for the root. */
  edges: Map<string, PlacedEdge[]>;
}

export const emptyGeometry: Geometry = { width: 0, height: 0, boxes: new Map(), edges: new Map() };

export function readGeometry(scene: Scene, placed: PlacedSheet): Geometry {
  const geometry: Geometry = { width: placed.width, height: placed.height, boxes: new Map(), edges: new Map() };
  addSheet(geometry, scene.root, placed, 0, 0);
  return geometry;
}

function addSheet(geometry: Geometry, sheet: Sheet, placed: PlacedSheet, left: number, top: number): void {
  const drawn = sheet.screen.edges.filter(([from, to]) => from !== to);
  geometry.edges.set(sheet.owner?.id ?? '', drawn.map((edge, position) => ({
    from: sheet.boxes[edge[0]]?.id ?? '',
    to: sheet.boxes[edge[1]]?.id ?? '',
    edge,
    route: (placed.routes[position] ?? []).map((value, place) => value + (place % 2 === 0 ? left : top)),
  })));
  sheet.boxes.forEach((box, position) => {
    const cell = placed.cells[position];
    if (!cell) return;
    const rectangle = { x: left + cell.x, y: top + cell.y, width: cell.width, height: cell.height };
    geometry.boxes.set(box.id, { box, rectangle });
    if (box.inner && cell.inner) addSheet(geometry, box.inner, cell.inner, rectangle.x, rectangle.y);
  });
}

/** The innermost box at a point. */
export function boxAt(geometry: Geometry, x: number, y: number): Box | null {
  let found: Box | null = null;
  for (const { box, rectangle } of geometry.boxes.values()) if (contains(rectangle, x, y)) found = box;
  return found;
}

export function contains({ x, y, width, height }: Rectangle, pointX: number, pointY: number): boolean {
  return pointX >= x && pointX <= x + width && pointY >= y && pointY <= y + height;
}

/** The middle of the topmost row; any one box of it may be at an end, and leave half of the window free. */
export function middleOfTop(geometry: Geometry): number | undefined {
  const row = topRow([...geometry.boxes.values()].map(({ rectangle }) => rectangle));
  return row && row.x + row.width / 2;
}

/** What the topmost of some rectangles cover together. */
export function topRow(all: Rectangle[]): Rectangle | undefined {
  const top = all.reduce((least, { y }) => Math.min(least, y), Infinity);
  const row = all.filter(({ y }) => y === top);
  if (!row.length) return undefined;
  const x = row.reduce((least, each) => Math.min(least, each.x), Infinity);
  return {
    x, y: top, width: row.reduce((most, each) => Math.max(most, each.x + each.width), -Infinity) - x,
    height: row.reduce((most, each) => Math.max(most, each.height), 0),
  };
}

/** Between two geometries, for a box that moves from one place to the other. */
export function blend(from: Geometry, to: Geometry, share: number): Geometry {
  const mix = (start: number, end: number) => start + (end - start) * share;
  const boxes: Geometry['boxes'] = new Map();
  for (const [id, { box, rectangle: end }] of to.boxes) {
    const start = from.boxes.get(id)?.rectangle ?? end;
    boxes.set(id, {
      box,
      rectangle: {
        x: mix(start.x, end.x), y: mix(start.y, end.y), width: mix(start.width, end.width), height: mix(start.height, end.height),
      },
    });
  }
  return { ...to, boxes, edges: new Map() };
}
