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

function routeThrough(points: Point[]): number[] {
  const [start, ...rest] = points as [Point, ...Point[]];
  const route = [start.x, start.y];
  let from = start;
  rest.forEach((to) => {
    const middle = (from.y + to.y) / 2;
    route.push(from.x, middle, to.x, middle, to.x, to.y);
    from = to;
  });
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
