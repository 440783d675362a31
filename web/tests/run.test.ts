import { describe, expect, it } from 'vitest';
import { formatClock, formatDay, formatDuration, type Epochs, type Series } from '../src/run/data';
import { drawEpochs, memoryAxis, metricAxis } from '../src/run/epochs';
import { timeScale } from '../src/run/scale';
import type { Line, Shape } from '../src/tide/picture';
import { palette } from './tide/tides';

const began = 1_790_000_000;
const hour = 3600;
const spans = (...pairs: [number, number][]) => pairs.map(([from, to]) => ({ began: began + from, ended: began + to }));

describe('the time axis', () => {
  it('is even without long pauses', () => {
    const { at, pauses } = timeScale(spans([0, 100], [101, 200]), 5);
    expect([0, 50, 100, 200].map((time) => at(began + time))).toEqual([0, 0.25, 0.5, 1]);
    expect(pauses).toEqual([]);
  });

  it('shortens a long pause to a twentieth of the time of all attempts', () => {
    const { at, pauses } = timeScale(spans([0, 100], [50_000, 50_100]), 5);
    expect(pauses).toHaveLength(1);
    expect(at(began + 100)).toBeCloseTo(100 / 210);
    expect(at(began + 50_000)).toBeCloseTo(110 / 210);
    expect(at(began + 50_100)).toBe(1);
    expect(pauses[0]!.high - pauses[0]!.low).toBeCloseTo(10 / 210);
  });

  it('holds attempts that overlap, are over at once, or are not there', () => {
    expect(timeScale(spans([0, 100], [50, 120]), 5).at(began + 120)).toBe(1);
    expect(timeScale(spans([0, 0]), 5).at(began)).toBe(0);
    expect(timeScale([], 5)).toMatchObject({ pauses: [], ticks: [] });
  });

  it('stays within its ends for times outside', () => {
    const { at } = timeScale(spans([0, 100]), 5);
    expect([at(began - 5), at(began + 500)]).toEqual([0, 1]);
  });

  it.each([10, 600, 5 * hour, 80 * hour, 4000 * hour])('has a few texts that do not overlap over %d seconds', (length) => {
    const { ticks } = timeScale(spans([0, length]), 6);
    expect(ticks.length).toBeGreaterThan(1);
    expect(ticks.length).toBeLessThanOrEqual(7);
    const gaps = ticks.slice(1).map(({ share }, index) => share - ticks[index]!.share);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1 / 6 - 1e-9);
  });

  it('says the day at the start and when it has changed', () => {
    const later = began + 30 * hour;
    const { ticks } = timeScale(spans([0, 100], [30 * hour, 30 * hour + 100]), 6);
    expect(ticks[0]!.text).toBe(`${formatDay(began)} ${formatClock(began)}`);
    expect(ticks.map(({ text }) => text)).toContain(`${formatDay(later)} ${formatClock(later)}`);
  });

  it('shortens each of many pauses', () => {
    const many = Array.from({ length: 50 }, (_, index): [number, number] => [index * 1e7, index * 1e7 + 10]);
    expect(timeScale(spans(...many), 6).pauses).toHaveLength(49);
  });
});

const series = (name: string, ...values: (number | null)[]): Series => ({ name, colour: '#123456', values });
const epochs = (count: number, attempts: number[]): Epochs => ({
  total: count,
  training: Array.from({ length: count }, () => 0),
  epoch: Array.from({ length: count }, (_, index) => index),
  attempt: attempts,
  steps: Array.from({ length: count }, (_, index) => 100 * (index + 1)),
  step_seconds: Array.from({ length: count }, () => 0.1),
  device: series('in use'),
  budget: series('budget'),
  process: series('resident'),
  metrics: [],
});
const size = { width: 690, height: 240 };

function lines(shapes: Shape[], name: string): Line[] {
  return shapes.filter((shape): shape is Line => shape.kind === 'line' && shape.name === name);
}

describe('values by epoch', () => {
  it('have a gap where a loss is not a number', () => {
    const shown = { title: 'Loss', epochs: epochs(4, [1, 1, 1, 1]), series: [series('loss', 2, 1, null, 0.5)] };
    const { picture } = drawEpochs({ ...shown, axis: metricAxis(shown.series) }, size, palette);
    expect(lines(picture.shapes, 'loss').map(({ points }) => points.length / 2)).toEqual([2, 1]);
    expect(picture.shapes.filter(({ kind }) => kind === 'dot')).toHaveLength(3);
  });

  it('show where another attempt began', () => {
    const shown = { title: 'Loss', epochs: epochs(4, [1, 1, 2, 3]), series: [series('loss', 4, 3, 2, 1)] };
    const { picture } = drawEpochs({ ...shown, axis: metricAxis(shown.series) }, size, palette);
    expect(lines(picture.shapes, 'restart')).toHaveLength(2);
  });

  it('have the budget as stairs, and without it where it is much higher', () => {
    const used = series('in use', 90, 80, 85);
    const draw = (...budgets: (number | null)[]) => {
      const budget = series('budget', ...budgets);
      const shown = { title: 'Memory', epochs: epochs(3, [1, 2, 2]), series: [used], axis: memoryAxis(used, budget), budget };
      const { picture, frame } = drawEpochs(shown, size, palette);
      return { frame, drawn: lines(picture.shapes, 'budget') };
    };
    const { frame, drawn } = draw(100, 90, 90);
    expect(drawn[0]!.points.map((value, index) => (index % 2 ? value : Math.round(value)))).toEqual([
      ...[frame.left, frame.y(100), Math.round((frame.x(0) + frame.x(1)) / 2), frame.y(100)],
      ...[Math.round((frame.x(0) + frame.x(1)) / 2), frame.y(90), Math.round((frame.x(1) + frame.x(2)) / 2), frame.y(90)],
      ...[Math.round((frame.x(1) + frame.x(2)) / 2), frame.y(90), frame.right, frame.y(90)],
    ]);
    expect(draw(1000, 1000, 1000).drawn).toEqual([]);
    expect(draw(null, 90, 90).drawn[0]!.points).toHaveLength(8);
  });

  it('begin at zero where that leaves them room', () => {
    expect(metricAxis([series('loss', 2, 0.5)]).low).toBe(0);
    expect(metricAxis([series('loss', 2, 1.9)]).low).toBeGreaterThan(1.8);
    expect(metricAxis([series('loss', 1, 1)]).high).toBeGreaterThan(1);
    expect(metricAxis([series('loss', -3, -1)]).low).toBeLessThan(-3);
    expect(metricAxis([series('loss', 0, 0)]).ticks.length).toBeGreaterThan(1);
  });
});

it('durations are those of the terminal', () => {
  expect([4.2, 185, 7620].map(formatDuration)).toEqual(['4.2 s', '3 min 05 s', '2 h 07 min']);
});
