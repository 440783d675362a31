// The picture of a tide: the kinds of memory stacked over the step, other curves over them, and marks.
import { formatBytes, formatCount } from '../amounts';
import { drawAxes, drawLevels, frameOf, type Frame, type Level } from './axes';
import type { ChartSize } from './chart';
import { axisTop, shareOf, type TideData } from './data';
import {
  letterWidth,
  lineAcross,
  lineUpright,
  type Label,
  type ChartPalette,
  type Picture,
  type Points,
  type Shape,
} from './picture';

/** Another curve over this one. */
export interface Overlay {
  /** Its name in the address. */
  key: string;
  label: string;
  colour: string;
  dash: readonly number[] | null;
  peakBytes: number;
  peakEvent: number | null;
  curve: { events: number; event: number[]; bytes: number[] };
}

interface DrawnTide {
  frame: Frame;
  picture: Picture;
}

export function drawTide(
  data: TideData,
  overlays: Overlay[],
  budget: number | null,
  size: ChartSize,
  palette: ChartPalette,
): DrawnTide {
  const highest = Math.max(data.peak_bytes, data.safe_bytes, ...overlays.map((overlay) => overlay.peakBytes));
  const top = axisTop(highest, budget);
  const frame = frameOf(size, top);
  const end = overlays.length ? 'end of the step' : `${formatCount(data.curve.events - 1)} events`;
  const levels: Level[] = [
    { bytes: data.safe_bytes, text: `safe bound ${formatBytes(data.safe_bytes)}`, name: 'safe' },
  ];
  if (budget !== null && budget <= top)
    levels.push({ bytes: budget, text: `budget ${formatBytes(budget)}`, name: 'budget' });
  const peak = labelPeak(data, frame, palette);
  const shapes: Shape[] = [
    ...drawAxes(frame, top, end, palette),
    ...drawKinds(data, frame, overlays.length > 0),
    ...(overlays.length ? [outline(data.curve, frame, palette.ink, 1.5, 'outline')] : []),
    ...overlays.flatMap((overlay) => drawOverlay(overlay, frame, palette)),
    ...drawLevels(frame, levels, [peak], palette),
    drawPeak(data, frame, palette),
    peak,
  ];
  return { frame, picture: { ...size, background: palette.card, title: describeTide(data, budget), shapes } };
}

export function describeTide(data: TideData, budget: number | null): string {
  const parts = [
    `${data.title}: memory in use over the step`,
    `peak ${formatBytes(data.peak_bytes)} at ${data.peak_place}`,
    `safe bound ${formatBytes(data.safe_bytes)}`,
  ];
  if (budget !== null) parts.push(`budget ${formatBytes(budget)}`);
  return parts.join('; ');
}

function drawKinds({ kinds, curve }: TideData, frame: Frame, pale: boolean): Shape[] {
  let lower: number[] = curve.event.map(() => 0);
  return kinds.flatMap((kind, row): Shape[] => {
    const sizes = curve.strata[row]!;
    if (!sizes.some((bytes) => bytes > 0)) return [];
    const upper = lower.map((bytes, point) => bytes + sizes[point]!);
    const points: Points = [];
    const add = (bytes: number, point: number) =>
      points.push(frame.x(shareOf(curve, curve.event[point]!)), frame.y(bytes));
    upper.forEach(add);
    for (let point = lower.length - 1; point >= 0; point -= 1) add(lower[point]!, point);
    lower = upper;
    return [{ kind: 'polygon', points, fill: kind.colour, name: kind.name, ...(pale ? { opacity: 0.5 } : {}) }];
  });
}

function outline(
  curve: { events: number; event: number[]; bytes: number[] },
  frame: Frame,
  stroke: string,
  width: number,
  name: string,
  dash: readonly number[] | null = null,
): Shape {
  const points = curve.event.flatMap((event, point) => [frame.x(shareOf(curve, event)), frame.y(curve.bytes[point]!)]);
  return { kind: 'line', points, stroke, width, name, ...(dash ? { dash } : {}) };
}

// A wider line in the colour of the card separates the curve from the areas.
function drawOverlay(overlay: Overlay, frame: Frame, palette: ChartPalette): Shape[] {
  const { curve, colour, peakEvent } = overlay;
  const dots: Shape[] =
    peakEvent === null
      ? []
      : [
          {
            kind: 'dot',
            x: frame.x(shareOf(curve, peakEvent)),
            y: frame.y(overlay.peakBytes),
            radius: 4,
            fill: colour,
            edge: palette.card,
          },
        ];
  return [
    outline(curve, frame, palette.card, 4.5, 'overlay-ground'),
    outline(curve, frame, colour, 2, `overlay ${overlay.key}`, overlay.dash),
    ...dots,
  ];
}

function placeOfPeak(data: TideData, frame: Frame): [x: number, y: number] {
  const bytes = data.curve.bytes[data.curve.event.indexOf(data.peak_event)] ?? data.peak_bytes;
  return [frame.x(shareOf(data.curve, data.peak_event)), frame.y(bytes)];
}

function drawPeak(data: TideData, frame: Frame, palette: ChartPalette): Shape {
  const [x, y] = placeOfPeak(data, frame);
  return { kind: 'dot', x, y, radius: 5, fill: palette.ink, edge: palette.card, name: 'peak' };
}

function labelPeak(data: TideData, frame: Frame, palette: ChartPalette): Label {
  const [x, y] = placeOfPeak(data, frame);
  const early = x < frame.width / 2;
  return {
    kind: 'label',
    x: x + (early ? 10 : -10),
    y: y - 9,
    text: `peak ${formatBytes(data.peak_bytes)}`,
    fill: palette.ink,
    anchor: early ? 'start' : 'end',
    bold: true,
    halo: palette.card,
    name: 'peak-label',
  };
}

/** The lifetimes of the buffers of the selected tensor, with its name above the first. */
export function markLifetimes(data: TideData, rows: number[], frame: Frame, palette: ChartPalette): Shape[] {
  const { born, died, name, bytes } = data.buffers;
  const lifetimes = rows.map((row): [left: number, width: number] => {
    const left = frame.x(Math.min(1, shareOf(data.curve, born[row]!)));
    return [left, Math.max(frame.x(Math.min(1, shareOf(data.curve, died[row]!))) - left, 2)];
  });
  const bands = lifetimes.flatMap(([left, width]): Shape[] => [
    {
      kind: 'boxes',
      boxes: [left, frame.top, width, frame.bottom - frame.top],
      fill: palette.ink,
      opacity: 0.12,
      name: 'lifetime',
    },
    { kind: 'line', points: lineAcross(left, left + width, frame.top), stroke: palette.ink, width: 4 },
  ]);
  if (!lifetimes.length) return bands;
  const [left, width] = lifetimes[0]!;
  const early = left + width / 2 < frame.width / 2;
  const size = ` · ${formatBytes(bytes[rows[0]!]!)}`;
  const room = (early ? frame.right - left : left + width - frame.left) / letterWidth;
  return [
    ...bands,
    {
      kind: 'label',
      x: early ? left : left + width,
      y: frame.top - 8,
      text: shortenStart(name[rows[0]!]!, room - size.length) + size,
      fill: palette.ink,
      anchor: early ? 'start' : 'end',
      bold: true,
      name: 'lifetime-label',
    },
  ];
}

/** Keep the end of a name, its most specific part: "…ential_1/conv_2_1/Relu:0". */
export function shortenStart(name: string, most: number): string {
  return name.length <= most ? name : `…${name.slice(name.length - Math.max(Math.floor(most) - 1, 8))}`;
}

export function markMoment(
  x: number,
  frame: { top: number; bottom: number },
  chosen: boolean,
  palette: ChartPalette,
): Shape {
  return {
    kind: 'line',
    points: lineUpright(x, frame.top, frame.bottom),
    stroke: palette.ink,
    width: chosen ? 1.5 : 1,
    opacity: chosen ? 1 : 0.4,
    name: chosen ? 'chosen' : 'pointer',
  };
}
