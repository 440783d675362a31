// The curves of edges: from the lower border of one box to the upper border of another, smooth, spread along the borders.
import type { Point } from './group';
import type { Edge } from './ranks';

interface Rectangle extends Point {
  width: number;
  height: number;
}

export function routeEdges(cells: Rectangle[], edges: Edge[], bends: Map<number, Point[]>): number[][] {
  const leaving = spreadPorts(cells, edges, 0);
  const entering = spreadPorts(cells, edges, 1);
  return edges.map(([from, to], position) => {
    const source = cells[from] as Rectangle;
    const target = cells[to] as Rectangle;
    if (target.y < source.y + source.height) return routeSideways(source, target);
    const start = { x: leaving[position] ?? 0, y: source.y + source.height };
    const end = { x: entering[position] ?? 0, y: target.y };
    return routeThrough([start, ...(bends.get(position) ?? []), end]);
  });
}

/** Where along the border each edge meets its box: in the order of the boxes at the other ends, so that they do not cross. */
function spreadPorts(cells: Rectangle[], edges: Edge[], end: 0 | 1): number[] {
  const byCell = new Map<number, number[]>();
  edges.forEach((edge, position) => byCell.set(edge[end], [...(byCell.get(edge[end]) ?? []), position]));
  const ports = new Array<number>(edges.length).fill(0);
  const middle = (cell: Rectangle) => cell.x + cell.width / 2;
  for (const [cell, positions] of byCell) {
    const box = cells[cell] as Rectangle;
    const far = (position: number) => middle(cells[edges[position]?.[end === 0 ? 1 : 0] ?? 0] as Rectangle);
    positions.sort((one, other) => far(one) - far(other));
    const room = Math.min(box.width * 0.7, 14 * (positions.length - 1));
    positions.forEach((position, place) => {
      const share = positions.length > 1 ? place / (positions.length - 1) - 0.5 : 0;
      ports[position] = middle(box) + room * share;
    });
  }
  return ports;
}

// A single bow when the boxes are in neighbouring rows; around bends a B-spline, which stays near them without corners.
function routeThrough(points: Point[]): number[] {
  const start = points[0] as Point;
  const end = points.at(-1) as Point;
  if (points.length === 2) {
    const middle = (start.y + end.y) / 2;
    return [start.x, start.y, start.x, middle, end.x, middle, end.x, end.y];
  }
  const upright = 12;
  return spline([start, { x: start.x, y: start.y + upright }, ...points.slice(1, -1), { x: end.x, y: end.y - upright }, end]);
}

/** A uniform cubic B-spline from its first to its last point, as Bézier curves. */
function spline(points: Point[]): number[] {
  const first = points[0] as Point;
  const last = points.at(-1) as Point;
  const padded = [first, ...points, last];
  const route = [first.x, first.y];
  for (let at = 0; at + 2 < padded.length; at += 1) {
    const [one, two, three] = padded.slice(at, at + 3) as [Point, Point, Point];
    route.push(
      (2 * one.x + two.x) / 3, (2 * one.y + two.y) / 3, (one.x + 2 * two.x) / 3, (one.y + 2 * two.y) / 3,
      (one.x + 4 * two.x + three.x) / 6, (one.y + 4 * two.y + three.y) / 6);
  }
  const [x = 0, y = 0] = route.slice(-2);
  route.push((2 * x + last.x) / 3, (2 * y + last.y) / 3, (x + 2 * last.x) / 3, (y + 2 * last.y) / 3, last.x, last.y);
  return route;
}

// Back to an earlier box, or to one beside: out of the side that faces it and into the side that is free.
function routeSideways(source: Rectangle, target: Rectangle): number[] {
  const right = target.x + target.width / 2 >= source.x + source.width / 2;
  const beside = right ? target.x >= source.x + source.width : target.x + target.width <= source.x;
  const startX = right ? source.x + source.width : source.x;
  const endX = beside === right ? target.x : target.x + target.width;
  const startY = source.y + source.height / 2;
  const endY = target.y + target.height / 2;
  const reach = (right ? 1 : -1) * Math.min(160, 40 + Math.abs(endY - startY) / 6);
  const back = beside ? -reach : reach;
  return [startX, startY, startX + reach, startY, endX + back, endY, endX, endY];
}
