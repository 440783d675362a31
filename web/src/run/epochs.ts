// Charts of memory and of metrics by epoch.
import { formatBytes, formatCount } from '../amounts';
import { element, swatch } from '../dom';
import { plotArea, type PlotArea } from '../tide/axes';
import { createChart, type Chart, type ChartSize, type PlaceDescription } from '../tide/chart';
import { markMoment } from '../tide/curve';
import { axisTop, byteTicks } from '../tide/data';
import { formatTime } from '../tide/format';
import { card } from '../tide/parts';
import { lineAcross, lineUpright, type ChartPalette, type Picture, type Points, type Shape } from '../tide/picture';
import { saveButtons } from '../tide/save';
import type { Epochs, RunData, Series } from './data';

const margin = { left: 76, right: 14, top: 14, bottom: 26 };
// Each value has a dot, unless there are more.
const mostDots = 60;
const ticksAcross = 5;

/** An axis of values: its ends, its ticks and its texts. */
export interface Axis {
  low: number;
  high: number;
  ticks: number[];
  format(value: number): string;
}

interface EpochFrame extends PlotArea {
  x(index: number): number;
  y(value: number): number;
}

interface EpochChart {
  title: string;
  epochs: Epochs;
  series: Series[];
  axis: Axis;
  /** A limit, which is drawn as stairs where it is not far above the values. */
  budget?: Series;
}

export function memoryAxis(used: Series, budget: Series): Axis {
  const budgets = finite([budget]);
  const top = axisTop(Math.max(...finite([used])), budgets.length ? Math.max(...budgets) : null);
  return { low: 0, high: top, ticks: byteTicks(top, ticksAcross + 1), format: (bytes) => (bytes ? formatBytes(bytes) : '0') };
}

/** From 0 where that leaves most of the height to the values. */
export function metricAxis(series: Series[]): Axis {
  const values = finite(series);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const spread = most - least || Math.abs(most) || 1;
  const low = least >= 0 && least < 0.6 * most ? 0 : least - 0.06 * spread;
  const high = most + 0.06 * spread;
  return { low, high, ticks: roundTicks(low, high), format: formatNumber };
}

function finite(series: Series[]): number[] {
  return series.flatMap(({ values }) => values.flatMap((value) => value ?? []));
}

/** Multiples of 1, 2 or 5 times a power of ten. */
function roundTicks(low: number, high: number): number[] {
  const power = 10 ** Math.floor(Math.log10((high - low) / ticksAcross));
  const step = power * ([1, 2, 5, 10].find((each) => (high - low) / (each * power) <= ticksAcross) ?? 10);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, index) => (first + index) * step);
}

function formatNumber(value: number): string {
  return String(Number(value.toPrecision(4)));
}

/** The charts with their cards; those without values are left out. */
export function epochCards({ title, epochs }: RunData): { charts: Chart[]; cards: HTMLElement[] } {
  const { metrics, device, budget, process } = epochs;
  const loss = metrics.every(({ name }) => name.includes('loss')) ? 'Loss' : 'Metric';
  const none = { ...budget, values: [] };
  const wanted: EpochChart[] = [
    { title: 'Device memory', epochs, series: [device], axis: memoryAxis(device, budget), budget },
    { title: 'Process memory', epochs, series: [process], axis: memoryAxis(process, none) },
    { title: loss, epochs, series: metrics, axis: metricAxis(metrics) },
  ];
  const made = wanted.filter(({ series }) => finite(series).length).map((shown) => epochCard(title, shown));
  return { charts: made.map(({ chart }) => chart), cards: made.map(({ element: each }) => each) };
}

function epochCard(run: string, shown: EpochChart): { chart: Chart; element: HTMLElement } {
  const chart = createEpochChart(shown);
  const { series, title, epochs, budget, axis } = shown;
  const legend = series.map(({ name, colour }) => ({ text: name, colour }));
  const budgets = budget ? finite([budget]) : [];
  if (budget && budgets.length) {
    const isShown = budgets.some((bytes) => bytes <= axis.high);
    legend.push({ text: isShown ? budget.name : `${budget.name}, far above`, colour: budget.colour });
  }
  const caption = () => ({ title: `${run} · ${title} by epoch`, file: `${run}-${title}`, legend });
  const left = epochs.total - epochs.epoch.length;
  const hint = `By epoch${left > 0 ? `; ${formatCount(left)} are left out` : ''}`;
  return {
    chart,
    element: card(
      title,
      [element('span', { class: 'hint' }, hint), saveButtons(chart, caption)],
      chart.element,
      element('div', { class: 'key' }, ...legend.map(({ text, colour }) => element('span', {}, swatch(colour), text))),
    ),
  };
}

function createEpochChart(shown: EpochChart): Chart {
  const count = shown.epochs.epoch.length;
  let frame: EpochFrame | null = null;
  return createChart<number>({
    className: 'epochs',
    surface: 'svg',
    label: () => `${describeEpochs(shown)}. Arrow keys read an epoch.`,
    paint: (size, palette) => {
      const drawn = drawEpochs(shown, size, palette);
      frame = drawn.frame;
      return drawn.picture;
    },
    at: (x) => (frame ? nearestEpoch(frame, count, x) : null),
    move: (from, key, many) => {
      if (key === 'Home' || key === 'End') return key === 'Home' ? 0 : count - 1;
      if (key !== 'ArrowLeft' && key !== 'ArrowRight') return null;
      if (from === null) return count - 1;
      return Math.min(count - 1, Math.max(0, from + (key === 'ArrowLeft' ? -1 : 1) * (many ? 10 : 1)));
    },
    marks: (index, palette) => (index === null || !frame ? [] : [markMoment(frame.x(index), frame, false, palette)]),
    describe: (index) => (frame ? describeEpoch(shown, index, frame) : null),
  });
}

function nearestEpoch({ left, right }: EpochFrame, count: number, x: number): number {
  const share = (x - left) / Math.max(right - left, 1);
  return Math.min(count - 1, Math.max(0, Math.round(share * (count - 1))));
}

function describeEpochs(shown: EpochChart): string {
  const last = readEpoch(shown, shown.epochs.epoch.length - 1).map(({ name, text }) => `${name} ${text}`);
  return `${shown.title} by epoch; last: ${last.join(', ')}`;
}

/** The values of an epoch, and the budget if there is one. */
function readEpoch({ series, budget, axis }: EpochChart, index: number): { name: string; colour: string; text: string }[] {
  const read = series.map(({ name, colour, values }) => {
    const value = values[index] ?? null;
    return { name, colour, text: value === null ? 'unknown' : axis.format(value) };
  });
  const limit = budget?.values[index] ?? null;
  return budget && limit !== null ? [...read, { name: budget.name, colour: budget.colour, text: axis.format(limit) }] : read;
}

export function drawEpochs(shown: EpochChart, size: ChartSize, palette: ChartPalette): { frame: EpochFrame; picture: Picture } {
  const { epochs, series, axis, budget } = shown;
  const count = epochs.epoch.length;
  const area = plotArea(size, margin);
  const { left, right, top, bottom } = area;
  const frame: EpochFrame = {
    ...area,
    x: (index) => (count === 1 ? (left + right) / 2 : left + (index / (count - 1)) * (right - left)),
    y: (value) => bottom - ((value - axis.low) / (axis.high - axis.low)) * (bottom - top),
  };
  const shapes: Shape[] = [
    ...drawGrid(axis, frame, palette),
    ...drawEpochNumbers(epochs, frame, palette),
    ...drawRestarts(epochs, frame, palette),
    ...(budget ? drawBudget(budget, axis, frame) : []),
    ...series.flatMap((each) => drawSeries(each, frame, palette)),
  ];
  return { frame, picture: { ...size, background: palette.card, title: describeEpochs(shown), shapes } };
}

function drawGrid({ ticks, format }: Axis, frame: EpochFrame, palette: ChartPalette): Shape[] {
  return ticks.flatMap((value): Shape[] => [
    { kind: 'line', points: lineAcross(frame.left, frame.right, frame.y(value)), stroke: palette.line, name: 'grid' },
    { kind: 'label', x: frame.left - 10, y: frame.y(value) + 4, text: format(value), fill: palette.muted, anchor: 'end' },
  ]);
}

function drawEpochNumbers(epochs: Epochs, frame: EpochFrame, palette: ChartPalette): Shape[] {
  const count = epochs.epoch.length;
  const step = Math.max(1, Math.ceil(count / Math.max(1, Math.floor((frame.right - frame.left) / 56))));
  const shown = Array.from({ length: Math.ceil(count / step) }, (_, place) => place * step);
  return shown.map((index): Shape => ({
    kind: 'label',
    x: frame.x(index),
    y: frame.bottom + 19,
    text: nameOf(epochs, index),
    fill: palette.muted,
    anchor: 'middle',
  }));
}

/** Lines where another attempt begins. */
function drawRestarts({ attempt }: Epochs, frame: EpochFrame, palette: ChartPalette): Shape[] {
  return attempt.flatMap((number, index): Shape[] =>
    index && number !== attempt[index - 1]
      ? [
          {
            kind: 'line',
            points: lineUpright((frame.x(index - 1) + frame.x(index)) / 2, frame.top, frame.bottom),
            stroke: palette.muted,
            dash: [2, 4],
            opacity: 0.6,
            name: 'restart',
          },
        ]
      : [],
  );
}

/** The budget of each epoch, as stairs; what is above the axis is left out. */
function drawBudget({ name, colour, values }: Series, { high }: Axis, frame: EpochFrame): Shape[] {
  const side = (index: number) => {
    if (index <= 0) return frame.left;
    return index >= values.length ? frame.right : (frame.x(index - 1) + frame.x(index)) / 2;
  };
  const lines: Points[] = [];
  let before: number | null = null;
  values.forEach((value, index) => {
    const drawn = value !== null && value <= high ? value : null;
    if (drawn !== null) {
      if (before === null) lines.push([]);
      lines[lines.length - 1]!.push(side(index), frame.y(drawn), side(index + 1), frame.y(drawn));
    }
    before = drawn;
  });
  return lines.map((points): Shape => ({ kind: 'line', points, stroke: colour, width: 2, name }));
}

function drawSeries({ name, colour, values }: Series, frame: EpochFrame, palette: ChartPalette): Shape[] {
  const lines: Points[] = [];
  values.forEach((value, index) => {
    if (value === null) return;
    if (!index || values[index - 1] === null) lines.push([]);
    lines[lines.length - 1]!.push(frame.x(index), frame.y(value));
  });
  const drawn = lines.map((points): Shape => ({ kind: 'line', points, stroke: colour, width: 2, name }));
  const dotted = lines.filter((points) => values.length <= mostDots || points.length === 2).flat();
  const dots = Array.from({ length: dotted.length / 2 }, (_, index): Shape => ({
    kind: 'dot',
    x: dotted[2 * index]!,
    y: dotted[2 * index + 1]!,
    radius: 3.5,
    fill: colour,
    edge: palette.card,
  }));
  return [...drawn, ...dots];
}

/** The number of an epoch, with that of its training if there are several. */
function nameOf({ epoch, training }: Epochs, index: number): string {
  const several = training.some((each) => each > 0);
  return `${several ? `${training[index]! + 1}·` : ''}${epoch[index]! + 1}`;
}

function describeEpoch(shown: EpochChart, index: number, frame: EpochFrame): PlaceDescription {
  const { epochs } = shown;
  const title = `epoch ${nameOf(epochs, index)}`;
  const pace = epochs.step_seconds[index] ?? null;
  const about = [
    `attempt ${epochs.attempt[index]}`,
    `${formatCount(epochs.steps[index]!)} steps`,
    ...(pace === null ? [] : [`${formatTime(1e6 * pace)} a step`]),
  ].join(' · ');
  const read = readEpoch(shown, index);
  return {
    x: frame.x(index),
    rows: [
      element('b', {}, title),
      ...read.map(({ name, colour, text }) =>
        element('div', { class: 'row' }, swatch(colour), element('span', {}, name), element('span', {}, text)),
      ),
      element('div', { class: 'node' }, about),
    ],
    words: [title, ...read.map(({ name, text }) => `${name} ${text}`), about].join(', '),
  };
}
