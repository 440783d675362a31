// The frontier of memory against time: a chart and a table of what other budgets cost.
import { formatBytes, formatCount } from '../amounts';
import { element } from '../dom';
import { plotArea, type PlotArea } from '../tide/axes';
import { createChart, type Chart, type ChartSize, type PlaceDescription } from '../tide/chart';
import { markMoment } from '../tide/curve';
import { byteTicks } from '../tide/data';
import { formatSlowdown } from '../tide/format';
import { lineAcross, lineUpright, type ChartPalette, type Picture, type Points, type Shape } from '../tide/picture';
import { timeTicks, type Frontier, type FrontierPoint } from './data';

const margin = { left: 52, right: 16, top: 30, bottom: 26 };

interface FrontierFrame extends PlotArea {
  x(bytes: number): number;
  y(slowdown: number): number;
}

function frameOf(size: ChartSize, frontier: Frontier): FrontierFrame {
  const area = plotArea(size, margin);
  const { left, right, top, bottom } = area;
  return {
    ...area,
    x: (bytes) => left + (bytes / frontier.top_bytes) * (right - left),
    y: (slowdown) => bottom - (Math.max(slowdown, 0) / frontier.top_slowdown) * (bottom - top),
  };
}

export function createFrontier(frontier: Frontier, budget: number, title: string): Chart {
  const { points } = frontier;
  let frame: FrontierFrame | null = null;
  return createChart<number>({
    className: 'frontier',
    surface: 'svg',
    label: () => `${describeFrontier(frontier, title)}. Arrow keys read a budget.`,
    paint: (size, palette) => {
      const drawn = drawFrontier(frontier, budget, title, size, palette);
      frame = drawn.frame;
      return drawn.picture;
    },
    at: (x) => (frame ? nearestPoint(points, frame, x) : null),
    move: (from, key, many) => {
      // Points are in descending order of memory, which grows to the right.
      if (key === 'Home' || key === 'End') return key === 'Home' ? points.length - 1 : 0;
      if (key !== 'ArrowLeft' && key !== 'ArrowRight') return null;
      if (from === null)
        return Math.max(
          0,
          points.findIndex((point) => point.chosen),
        );
      const step = (key === 'ArrowLeft' ? 1 : -1) * (many ? 10 : 1);
      return Math.min(points.length - 1, Math.max(0, from + step));
    },
    marks: (index, palette) =>
      index === null || !frame
        ? []
        : [
            markMoment(frame.x(points[index]!.bytes), frame, false, palette),
            dotAt(points[index]!, frame, palette.ink, 6, palette),
          ],
    describe: (index) => (frame ? describePoint(points[index]!, frame) : null),
  });
}

function nearestPoint(points: FrontierPoint[], frame: FrontierFrame, x: number): number {
  const away = (index: number) => Math.abs(frame.x(points[index]!.bytes) - x);
  return points.reduce((best, _, index) => (away(index) < away(best) ? index : best), 0);
}

function describeFrontier({ points }: Frontier, title: string): string {
  return `${title}: time against memory; the smallest that was found is ${points[points.length - 1]?.words ?? 'none'}`;
}

export function drawFrontier(
  frontier: Frontier,
  budget: number,
  title: string,
  size: ChartSize,
  palette: ChartPalette,
): { frame: FrontierFrame; picture: Picture } {
  const frame = frameOf(size, frontier);
  const stairs = stairsOf(frontier, frame);
  const start = frame.x(frontier.steps[frontier.steps.length - 1]!.bytes);
  const shapes: Shape[] = [
    ...drawGrid(frontier, frame, palette),
    {
      kind: 'polygon',
      points: [start, frame.bottom, ...stairs, frame.right, frame.bottom],
      fill: frontier.colour,
      opacity: 0.16,
    },
    { kind: 'line', points: stairs, stroke: frontier.colour, width: 2, name: 'frontier' },
    ...(budget <= frontier.top_bytes ? drawBudget(budget, frame, palette) : []),
    ...frontier.points.map((point) =>
      dotAt(
        point,
        frame,
        point.chosen ? palette.sea : point.name ? palette.ink : palette.muted,
        point.chosen ? 6 : point.name ? 5 : 3,
        palette,
      ),
    ),
    ...labelled(frontier.points, frame).map((point) => drawName(point, frame, palette)),
  ];
  return { frame, picture: { ...size, background: palette.card, title: describeFrontier(frontier, title), shapes } };
}

function drawGrid(frontier: Frontier, frame: FrontierFrame, palette: ChartPalette): Shape[] {
  const times = timeTicks(frontier.top_slowdown).flatMap((slowdown): Shape[] => [
    {
      kind: 'line',
      points: lineAcross(frame.left, frame.right, frame.y(slowdown)),
      stroke: palette.line,
      name: 'grid',
    },
    {
      kind: 'label',
      x: frame.left - 10,
      y: frame.y(slowdown) + 4,
      text: formatSlowdown(slowdown),
      fill: palette.muted,
      anchor: 'end',
    },
  ]);
  const sizes = byteTicks(frontier.top_bytes, Math.max(2, Math.floor(frame.width / 110))).map((bytes): Shape => ({
    kind: 'label',
    x: frame.x(bytes),
    y: frame.bottom + 19,
    text: bytes ? formatBytes(bytes) : '0',
    fill: palette.muted,
    anchor: bytes ? 'middle' : 'start',
  }));
  return [...times, ...sizes];
}

/** The frontier as stairs, from the smallest budget to the right. */
export function stairsOf(frontier: Frontier, frame: Pick<FrontierFrame, 'x' | 'y' | 'right'>): Points {
  const stairs: Points = [];
  for (const { bytes, slowdown } of [...frontier.steps].reverse()) {
    const [x, y] = [frame.x(bytes), frame.y(slowdown)];
    if (stairs.length) stairs.push(x, stairs[stairs.length - 1]!);
    stairs.push(x, y);
  }
  if (stairs.length) stairs.push(frame.right, stairs[stairs.length - 1]!);
  return stairs;
}

function drawBudget(budget: number, frame: FrontierFrame, palette: ChartPalette): Shape[] {
  const x = frame.x(budget);
  const early = x < frame.width / 2;
  return [
    { kind: 'line', points: lineUpright(x, frame.top, frame.bottom), stroke: palette.over, width: 2, name: 'budget' },
    {
      kind: 'label',
      x: x + (early ? 6 : -6),
      y: frame.top - 8,
      text: `budget ${formatBytes(budget)}`,
      fill: palette.over,
      anchor: early ? 'start' : 'end',
      bold: true,
    },
  ];
}

function dotAt(point: FrontierPoint, frame: FrontierFrame, fill: string, radius: number, palette: ChartPalette): Shape {
  const name = point.name ? { name: point.name } : {};
  return {
    kind: 'dot',
    x: frame.x(point.bytes),
    y: frame.y(point.slowdown),
    radius,
    fill,
    edge: palette.card,
    ...name,
  };
}

// Of names that would overlap, that of the plan is kept.
function labelled(points: FrontierPoint[], frame: FrontierFrame): FrontierPoint[] {
  const near = (one: FrontierPoint, other: FrontierPoint) =>
    Math.abs(frame.x(one.bytes) - frame.x(other.bytes)) < 70 &&
    Math.abs(frame.y(one.slowdown) - frame.y(other.slowdown)) < 16;
  const kept: FrontierPoint[] = [];
  for (const point of points
    .filter((each) => each.name)
    .sort((one, other) => Number(other.chosen) - Number(one.chosen))) {
    if (!kept.some((other) => near(point, other))) kept.push(point);
  }
  return kept;
}

function drawName(point: FrontierPoint, frame: FrontierFrame, palette: ChartPalette): Shape {
  const x = frame.x(point.bytes);
  const early = x < frame.width / 2;
  return {
    kind: 'label',
    x: x + (early ? 8 : -8),
    y: frame.y(point.slowdown) - 9,
    text: point.name,
    fill: palette.ink,
    anchor: early ? 'start' : 'end',
    bold: true,
    halo: palette.card,
    name: 'name',
  };
}

function describePoint(point: FrontierPoint, frame: FrontierFrame): PlaceDescription {
  const facts = [`${formatCount(point.recomputed)} recomputed`, point.note].filter(Boolean).join(' · ');
  return {
    x: frame.x(point.bytes),
    rows: [
      element('b', {}, `${formatBytes(point.bytes)}, ${formatSlowdown(point.slowdown)} time`),
      element('div', {}, facts),
    ],
    words: point.words,
  };
}

/** About `most` of the points, evenly spaced in memory, and all that have a name. */
export function rowsOf(points: FrontierPoint[], most: number): FrontierPoint[] {
  if (points.length <= most) return points;
  const [high, low] = [points[0]!.bytes, points[points.length - 1]!.bytes];
  const wanted = new Set(points.filter((point) => point.name));
  for (let step = 0; step < most; step += 1) {
    const bytes = high - ((high - low) * step) / Math.max(most - 1, 1);
    wanted.add(
      points.reduce((best, point) => (Math.abs(point.bytes - bytes) < Math.abs(best.bytes - bytes) ? point : best)),
    );
  }
  return points.filter((point) => wanted.has(point));
}

export function frontierTable(points: FrontierPoint[]): HTMLElement {
  const heads = ['memory', 'time', 'recomputed'].map((name) => element('th', { scope: 'col', class: 'number' }, name));
  const rows = points.map((point) =>
    element(
      'tr',
      { class: point.chosen ? 'chosen' : '' },
      ...[formatBytes(point.bytes), formatSlowdown(point.slowdown), formatCount(point.recomputed)].map((text) =>
        element('td', { class: 'number' }, text),
      ),
      element('td', { class: 'dim' }, point.note),
    ),
  );
  return element(
    'table',
    { 'aria-label': 'What other budgets cost' },
    element('thead', {}, element('tr', {}, ...heads, element('th', { scope: 'col' }))),
    element('tbody', {}, ...rows),
  );
}
