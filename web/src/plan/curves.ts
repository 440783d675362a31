// Two steps in one chart, before and after, with the budget.
import { formatBytes } from '../amounts';
import { element, swatch } from '../dom';
import { drawAxes, drawLevels, frameOf, type Frame } from '../tide/axes';
import { createChart, type Chart, type ChartSize, type PlaceDescription } from '../tide/chart';
import { markMoment } from '../tide/curve';
import { nodeAt, pointAtShare, shareOf } from '../tide/data';
import type { Label, ChartPalette, Picture, Shape } from '../tide/picture';
import { card } from '../tide/parts';
import { saveButtons } from '../tide/save';
import type { Curves, PlanCurve } from './data';

export function createCurves(title: string, data: Curves): Chart {
  let frame: Frame | null = null;
  const last = data.curves[data.curves.length - 1]!;
  return createChart<number>({
    className: 'curves',
    surface: 'svg',
    label: () => `${describeCurves(title, data)}. Arrow keys read a moment.`,
    paint: (size, palette) => {
      const drawn = drawCurves(title, data, size, palette);
      frame = drawn.frame;
      return drawn.picture;
    },
    at: (x) => frame?.shareAt(x) ?? null,
    move: (from, key, many) => {
      if (key === 'Home' || key === 'End') return key === 'Home' ? 0 : 1;
      if (key !== 'ArrowLeft' && key !== 'ArrowRight') return null;
      // The first key leads to the peak of the planned step.
      if (from === null) return shareOf(last, last.peak_event);
      return Math.min(1, Math.max(0, from + ((key === 'ArrowLeft' ? -1 : 1) * (many ? 10 : 1)) / 100));
    },
    marks: (share, palette) =>
      share === null || !frame
        ? []
        : [
            markMoment(frame.x(share), frame, false, palette),
            ...data.curves.map((curve) => dotAt(curve, pointAtShare(curve, share), frame!, 4, palette)),
          ],
    describe: (share) => (frame ? describeShare(data, share, frame) : null),
  });
}

function describeCurves(title: string, { peaks, budget_bytes: budget }: Curves): string {
  const parts = [`${title}: memory over the step`, peaks, budget === null ? '' : `budget ${formatBytes(budget)}`];
  return parts.filter(Boolean).join('; ');
}

export function drawCurves(title: string, data: Curves, size: ChartSize, palette: ChartPalette): { frame: Frame; picture: Picture } {
  const { top_bytes: top, budget_bytes: budget, curves } = data;
  const frame = frameOf(size, top);
  const peaks = curves.map((curve) => labelPeak(curve, budget, frame, palette));
  const shapes: Shape[] = [
    ...drawAxes(frame, top, 'end of the step', palette),
    ...curves.flatMap((curve) => drawCurve(curve, frame)),
    ...(budget !== null && budget <= top
      ? drawLevels(frame, [{ bytes: budget, text: `budget ${formatBytes(budget)}`, name: 'budget' }], peaks, palette)
      : []),
    ...curves.map((curve) => dotAt(curve, curve.event.indexOf(curve.peak_event), frame, 5, palette)),
    ...peaks,
  ];
  return { frame, picture: { ...size, background: palette.card, title: describeCurves(title, data), shapes } };
}

/** The chart with its heading and its legend. */
export function curvesCard(title: string, summary: string, data: Curves, chart: Chart): HTMLElement {
  const legend = data.curves.map(({ name, colour, peak_bytes: peak }) => ({
    text: `${name}: peak ${formatBytes(peak)}`,
    colour,
  }));
  const caption = () => ({ title: `${title} · ${summary}`, file: `${title}-curves`, legend });
  return card(
    'Memory over the step',
    [
      element('span', { class: 'hint' }, 'Full step, start to end. Point, or use ← →, to read a moment'),
      saveButtons(chart, caption),
    ],
    chart.element,
    element('div', { class: 'key' }, ...legend.map(({ text, colour }) => element('span', {}, swatch(colour), text))),
  );
}

function drawCurve(curve: PlanCurve, frame: Frame): Shape[] {
  const points = curve.event.flatMap((event, point) => [frame.x(shareOf(curve, event)), frame.y(curve.bytes[point]!)]);
  return [
    {
      kind: 'polygon',
      points: [frame.left, frame.bottom, ...points, frame.right, frame.bottom],
      fill: curve.colour,
      opacity: 0.16,
    },
    { kind: 'line', points, stroke: curve.colour, width: 2, name: curve.name },
  ];
}

function dotAt(curve: PlanCurve, point: number, frame: Frame, radius: number, palette: ChartPalette): Shape {
  const x = frame.x(shareOf(curve, curve.event[point]!));
  return { kind: 'dot', x, y: frame.y(curve.bytes[point]!), radius, fill: curve.colour, edge: palette.card };
}

function labelPeak(curve: PlanCurve, budget: number | null, frame: Frame, palette: ChartPalette): Label {
  const x = frame.x(shareOf(curve, curve.peak_event));
  const top = frame.y(curve.bytes[curve.event.indexOf(curve.peak_event)]!);
  const early = x < frame.width / 2;
  // Above the dot, unless the line of the budget is there.
  const over = budget === null ? Infinity : top - 9 - frame.y(budget);
  return {
    kind: 'label',
    x: x + (early ? 10 : -10),
    y: over > -5 && over < 13 ? top + 22 : top - 9,
    text: `${curve.name} ${formatBytes(curve.peak_bytes)}`,
    fill: palette.ink,
    anchor: early ? 'start' : 'end',
    bold: true,
    halo: palette.card,
    name: `${curve.name}-label`,
  };
}

function describeShare({ curves }: Curves, share: number, frame: Frame): PlaceDescription {
  const percent = `${Math.round(100 * share)}% of the step`;
  const read = curves.map((curve) => ({ curve, point: pointAtShare(curve, share) }));
  return {
    x: frame.x(share),
    rows: [
      element('b', {}, percent),
      ...read.flatMap(({ curve, point }) => [
        element(
          'div',
          { class: 'row' },
          swatch(curve.colour),
          element('span', {}, curve.name),
          element('span', {}, formatBytes(curve.bytes[point]!)),
        ),
        element('div', { class: 'node' }, nodeAt(curve, point)),
      ]),
    ],
    words: [percent, ...read.map(({ curve, point }) => `${curve.name} ${formatBytes(curve.bytes[point]!)}`)].join(', '),
  };
}
