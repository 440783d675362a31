// From a scene and its places to the display list, in the order of painting: a frame, its edges, its boxes, what is open in it.
import { formatBytes, formatShort } from '../amounts';
import type { Crossing } from '../api';
import { changeColour, type Colouring } from './colours';
import type { Geometry, PlacedEdge, Rectangle } from './geometry';
import { boundsOfRoute, overlap, type CurveMark, type Mark, type TextMark } from './marks';
import { boxText, fonts, footerText, headingHeight, headingText } from './measures';
import { showName } from '../names';
import type { Palette } from './palette';
import { canOpen, isFold, type Box, type Scene, type Sheet } from './scene';
import { truncate, type Font, type Measure } from './text';

const farAcross = 420;
// A + or − that is smaller than this cannot be made out.
const leastGlyph = 0.25;

export interface Look {
  /** The names of the nodes around which others are shown. */
  centres: string[];
  palette: Palette;
  colouring: Colouring;
  measure: Measure;
}

export function buildMarks(scene: Scene, geometry: Geometry, look: Look): Mark[] {
  const marks: Mark[] = [];
  addSheet(marks, scene.root, geometry, look);
  return marks;
}

function addSheet(marks: Mark[], sheet: Sheet, geometry: Geometry, look: Look): void {
  const edges = geometry.edges.get(sheet.owner?.id ?? '') ?? [];
  for (const edge of edges) addEdge(marks, edge, sheet, look);
  marks.push(...placeLabels(edges, sheet, geometry, look));
  addCrossings(marks, sheet, sheet.screen.incoming, geometry, look, 'in');
  addCrossings(marks, sheet, sheet.screen.outgoing, geometry, look, 'out');
  for (const box of sheet.boxes) {
    const rectangle = geometry.boxes.get(box.id)?.rectangle;
    if (!rectangle) continue;
    if (box.inner) {
      addFrame(marks, box, box.inner, rectangle, look);
      addSheet(marks, box.inner, geometry, look);
    } else addBox(marks, box, rectangle, look);
  }
}

function addEdge(marks: Mark[], { edge, route }: PlacedEdge, sheet: Sheet, { palette }: Look): void {
  const [from, to, count, bytes, control] = edge;
  const ends = [sheet.boxes[from]?.item.change, sheet.boxes[to]?.item.change];
  const seen = ends.find((end) => end === 'added' || end === 'removed');
  const curve = curveMark(route, changeColour(seen, palette) ?? palette.edge, edgeWidth(count, bytes));
  curve.dashed = control >= count;
  // What leads far across (a constant that all blocks read) would hide what is near; selecting a box brings it out.
  if (curve.bounds.height > farAcross && seen === undefined) curve.opacity = 0.3;
  marks.push(curve);
}

/** Labels where there is room, those of the most edges first; the others are shown when pointed at. */
function placeLabels(edges: PlacedEdge[], sheet: Sheet, geometry: Geometry, { palette, measure }: Look): Mark[] {
  const taken = sheet.boxes.flatMap((box) => geometry.boxes.get(box.id)?.rectangle ?? []);
  const marks: Mark[] = [];
  for (const { edge: [, , count, bytes, , shape], route } of [...edges].sort((one, other) => other.edge[2] - one.edge[2])) {
    const label = edgeLabel(count, bytes, shape);
    if (!label) continue;
    const text = edgeText(route, label, palette, measure);
    const place = { x: text.x - 2, y: text.y - 10, width: text.width + 4, height: 13 };
    if (taken.some((other) => overlap(other, place))) continue;
    taken.push(place);
    marks.push(text);
  }
  return marks;
}

export function edgeWidth(count: number, bytes: number): number {
  return Math.min(7, 1 + 0.45 * Math.log10(1 + count) + 0.22 * Math.max(0, Math.log2(1 + bytes / 65536)));
}

export function edgeLabel(count: number, bytes: number, shape?: string | null): string {
  const amount = [shape ?? '', bytes > 0 ? formatBytes(bytes) : ''].filter(Boolean).join(' · ');
  return count > 1 ? `${formatShort(count)}×${amount ? ` ${amount}` : ''}` : amount;
}

/** In the middle of the edge's middle curve, shown when zoomed in. */
export function edgeText(route: number[], text: string, palette: Palette, measure: Measure, leastScale = 1.15): TextMark {
  const start = 6 * Math.floor((route.length - 2) / 12);
  const [x0 = 0, y0 = 0, x1 = 0, y1 = 0, x2 = 0, y2 = 0, x3 = 0, y3 = 0] = route.slice(start, start + 8);
  const x = (x0 + 3 * x1 + 3 * x2 + x3) / 8;
  const y = (y0 + 3 * y1 + 3 * y2 + y3) / 8;
  return textMark(x + 6, y + 3, text, fonts.edge, palette.muted, measure, { leastScale });
}

export function curveMark(route: number[], stroke: string, lineWidth: number): CurveMark {
  return { type: 'curve', route, bounds: boundsOfRoute(route), stroke, lineWidth, dashed: false, arrow: true, opacity: 0.75 };
}

function addFrame(marks: Mark[], box: Box, sheet: Sheet, rectangle: Rectangle, look: Look): void {
  const { palette, measure } = look;
  const depth = look.colouring.paint(box.item);
  const nested = depthOf(sheet) % 2;
  marks.push({
    type: 'rectangle', ...rectangle, radius: 12, fill: palette.frame[nested] ?? palette.card,
    stroke: box.item.change ? depth.stroke : palette.line, lineWidth: 1.25,
  });
  const heading = headingText(sheet);
  const detailWidth = measure(heading.detail, fonts.detail);
  const title = truncate(heading.title, Math.max(40, rectangle.width - detailWidth - 70), fonts.heading, measure);
  const baseline = rectangle.y + headingHeight - 10;
  marks.push(
    { ...textMark(rectangle.x + 34, baseline, title, fonts.heading, palette.ink, measure), room: rectangle.width - detailWidth - 58 },
    textMark(rectangle.x + rectangle.width - 14, baseline, heading.detail, fonts.detail, palette.muted, measure, { align: 'end', leastScale: 0.45 }));
  addGlyph(marks, glyphOf(box, rectangle), '−', palette, measure);
  const footer = footerText(sheet);
  if (footer) {
    marks.push(textMark(rectangle.x + rectangle.width / 2, rectangle.y + rectangle.height - 10, footer, fonts.detail, palette.muted, measure,
      { align: 'middle', leastScale: 0.4 }));
  }
}

function depthOf(sheet: Sheet): number {
  return sheet.owner ? 1 + depthOf(sheet.owner.sheet) : 0;
}

function addBox(marks: Mark[], box: Box, rectangle: Rectangle, look: Look): void {
  const { palette, measure } = look;
  const { item } = box;
  const paint = look.colouring.paint(item);
  const stacked = isFold(item);
  const radius = item.kind === 'node' ? rectangle.height / 2 : 9;
  const outline = { type: 'rectangle', radius, fill: paint.fill, stroke: paint.stroke, lineWidth: 1.25 } as const;
  if (stacked) marks.push({ ...outline, ...moved(rectangle, 6) }, { ...outline, ...moved(rectangle, 3) });
  marks.push({ ...outline, ...rectangle });
  if (look.centres.includes(item.key)) marks.push({ type: 'rectangle', ...rectangle, radius, fill: null, stroke: palette.sea, lineWidth: 3.5 });
  const text = boxText(box, measure);
  const openable = canOpen(item);
  const middle = rectangle.x + rectangle.width / 2 + (openable ? 9 : 0);
  marks.push(
    textMark(middle, rectangle.y + 19, text.title, fonts.title, paint.text, measure, { align: 'middle' }),
    textMark(middle, rectangle.y + 34, text.detail, fonts.detail, paint.soft, measure, { align: 'middle', leastScale: 0.5 }));
  if (openable) addGlyph(marks, glyphOf(box, rectangle), '+', palette, measure);
}

function moved(rectangle: Rectangle, by: number): Rectangle {
  return { x: rectangle.x + by, y: rectangle.y + by, width: rectangle.width - by, height: rectangle.height - by + by / 2 };
}

/** Where a box's + or − is, for drawing and for the pointer. */
export function glyphOf(box: Box, rectangle: Rectangle): Rectangle {
  const size = 16;
  return box.inner
    ? { x: rectangle.x + 11, y: rectangle.y + 9, width: size, height: size }
    : { x: rectangle.x + 9, y: rectangle.y + (rectangle.height - size) / 2, width: size, height: size };
}

function addGlyph(marks: Mark[], place: Rectangle, glyph: '+' | '−', palette: Palette, measure: Measure): void {
  marks.push(
    { type: 'rectangle', ...place, radius: 8, fill: palette.card, stroke: palette.line, lineWidth: 1, leastScale: leastGlyph },
    textMark(place.x + place.width / 2, place.y + 12.5, glyph, fonts.title, palette.sea, measure, { align: 'middle', leastScale: 0.35 }));
}

/** Edges that cross the border of the scope: a short line at the box, with how many. */
function addCrossings(marks: Mark[], sheet: Sheet, crossings: Crossing[], geometry: Geometry, look: Look, way: 'in' | 'out'): void {
  const { palette, measure } = look;
  for (const [item, count, bytes] of crossings) {
    const rectangle = geometry.boxes.get(sheet.boxes[item]?.id ?? '')?.rectangle;
    if (!rectangle) continue;
    const x = rectangle.x + rectangle.width - 16;
    const border = way === 'in' ? rectangle.y : rectangle.y + rectangle.height;
    const [from, to] = way === 'in' ? [border - 13, border] : [border, border + 13];
    const stub = curveMark([x, from, x, from + 4, x, to - 4, x, to], palette.sea, Math.min(3, edgeWidth(count, bytes)));
    marks.push({ ...stub, opacity: 0.9 },
      textMark(x + 5, way === 'in' ? border - 6 : border + 12, formatShort(count), fonts.edge, palette.sea, measure, { leastScale: 0.6 }));
  }
}

function textMark(
  x: number, y: number, text: string, font: Font, fill: string, measure: Measure,
  { align = 'start', leastScale = 0.3 }: { align?: TextMark['align']; leastScale?: number } = {},
): TextMark {
  const shown = text && showName(text);
  return { type: 'text', x, y, text: shown, font, fill, align, width: measure(shown, font), leastScale };
}
