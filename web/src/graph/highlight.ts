// Drawn over the graph: the selected box and its edges, and what is under the pointer.
import { curveMark, edgeLabel, edgeText, edgeWidth } from './display';
import type { Geometry, PlacedEdge } from './geometry';
import type { Mark } from './marks';
import type { Palette } from './palette';
import type { Measure } from './text';

export interface Pointed {
  box: string | null;
  edge: PlacedEdge | null;
}

export function highlightMarks(geometry: Geometry, selected: string | null, pointed: Pointed, palette: Palette, measure: Measure): Mark[] {
  const lines: Mark[] = [];
  const labels: Mark[] = [];
  const touching = [selected, pointed.box].filter((id) => id !== null);
  for (const edges of geometry.edges.values()) {
    for (const edge of edges) {
      if (edge !== pointed.edge && !touching.includes(edge.from) && !touching.includes(edge.to)) continue;
      const [, , count, bytes, control, shape] = edge.edge;
      lines.push({ ...curveMark(edge.route, palette.sea, edgeWidth(count, bytes) + 0.5), opacity: 1, dashed: control >= count });
      const label = edgeLabel(count, bytes, shape) || (edge === pointed.edge ? '1 edge' : '');
      if (label) labels.push(...plate(edgeText(edge.route, label, palette, measure, 0.4), palette));
    }
  }
  return [...lines, ...outline(geometry, pointed.box, palette.sea, 1.5), ...outline(geometry, selected, palette.sea, 3), ...labels];
}

function plate(text: ReturnType<typeof edgeText>, palette: Palette): Mark[] {
  return [
    { type: 'rectangle', x: text.x - 4, y: text.y - 11, width: text.width + 8, height: 15, radius: 5, fill: palette.card, stroke: null, lineWidth: 0 },
    { ...text, fill: palette.ink },
  ];
}

function outline(geometry: Geometry, id: string | null, stroke: string, lineWidth: number): Mark[] {
  const placed = id === null ? undefined : geometry.boxes.get(id);
  if (!placed) return [];
  const { x, y, width, height } = placed.rectangle;
  const radius = placed.box.inner ? 13 : placed.box.item.kind === 'node' ? height / 2 + 2 : 11;
  return [{ type: 'rectangle', x: x - 2, y: y - 2, width: width + 4, height: height + 4, radius, fill: null, stroke, lineWidth }];
}

/** The edge within a few units of a point. */
export function edgeAt(geometry: Geometry, x: number, y: number, within: number): PlacedEdge | null {
  let best: PlacedEdge | null = null;
  let least = within;
  for (const edges of geometry.edges.values()) {
    for (const edge of edges) {
      const distance = distanceToRoute(edge.route, x, y, least);
      if (distance < least) {
        least = distance;
        best = edge;
      }
    }
  }
  return best;
}

function distanceToRoute(route: number[], x: number, y: number, within: number): number {
  let least = Infinity;
  for (let at = 0; at + 7 < route.length; at += 6) {
    const [x0 = 0, y0 = 0, x1 = 0, y1 = 0, x2 = 0, y2 = 0, x3 = 0, y3 = 0] = route.slice(at, at + 8);
    if (Math.max(x0, x1, x2, x3) < x - within || Math.min(x0, x1, x2, x3) > x + within) continue;
    if (Math.max(y0, y1, y2, y3) < y - within || Math.min(y0, y1, y2, y3) > y + within) continue;
    for (let step = 0; step <= 24; step += 1) {
      const t = step / 24;
      const u = 1 - t;
      const curveX = u * u * u * x0 + 3 * u * u * t * x1 + 3 * u * t * t * x2 + t * t * t * x3;
      const curveY = u * u * u * y0 + 3 * u * u * t * y1 + 3 * u * t * t * y2 + t * t * t * y3;
      least = Math.min(least, Math.hypot(curveX - x, curveY - y));
    }
  }
  return least;
}
