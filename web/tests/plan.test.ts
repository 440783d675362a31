import { describe, expect, it } from 'vitest';
import { describeAction, describeRest } from '../src/plan/actions';
import { drawCurves } from '../src/plan/curves';
import { timeTicks, totalOf, type Action, type Frontier, type PlanData } from '../src/plan/data';
import { drawFrontier, rowsOf, stairsOf } from '../src/plan/frontier';
import type { Line } from '../src/tide/picture';
import { palette } from './tide/tides';

const action = (node: string, saves: number, costs: number): Action => ({
  what: 'recompute',
  layer: 'dense',
  op: 'Relu',
  node,
  saves_bytes: saves,
  costs_us: costs,
  reason: 'held long',
});
const actions = [action('dense/Relu', 8000, 1250), action('norm/mul', 100, 3.5)];
const frontier: Frontier = {
  colour: '#e9b93f',
  top_bytes: 20000,
  top_slowdown: 0.34,
  steps: [
    { bytes: 16384, slowdown: 0, recomputed: 0 },
    { bytes: 9216, slowdown: 0.14, recomputed: 2 },
    { bytes: 7168, slowdown: 0.31, recomputed: 4 },
  ],
  points: [
    { bytes: 16384, slowdown: 0, recomputed: 0, name: 'as it is', note: 'as it is', chosen: false, words: '16 KiB' },
    { bytes: 9216, slowdown: 0.14, recomputed: 2, name: 'this plan', note: 'this plan', chosen: true, words: '9 KiB' },
    {
      bytes: 7168,
      slowdown: 0.31,
      recomputed: 4,
      name: 'smallest',
      note: 'smallest, estimate',
      chosen: false,
      words: '7 KiB at +31% time',
    },
  ],
};
const curve = (name: string, peak: number) => ({
  name,
  colour: '#12a5b0',
  peak_bytes: peak,
  peak_event: 1,
  events: 3,
  event: [0, 1, 2],
  bytes: [100, peak, 100],
  node: [null, 0, 0],
  nodes: ['a'],
});
const plan: PlanData = {
  title: 'a step',
  budget_bytes: 10240,
  summary: 'less',
  fits: true,
  answers: [],
  curves: {
    peaks: 'peak 14 KiB -> 9 KiB',
    budget_bytes: 10240,
    top_bytes: 15000,
    curves: [curve('before', 14000), curve('after', 9000)],
  },
  frontier,
  layers: [],
  actions,
  total: { actions: 12, saves_bytes: 9000, costs_us: 2000 },
  usage: [],
  method: '',
  notes: [],
};

describe('a plan', () => {
  it('adds actions up', () => {
    expect(totalOf(actions)).toEqual({ actions: 2, saves_bytes: 8100, costs_us: 1253.5 });
    expect(totalOf([])).toEqual({ actions: 0, saves_bytes: 0, costs_us: 0 });
  });

  it('says what is not listed', () => {
    expect(describeRest(plan, actions, actions, false)).toBe('and 10 more that save 900 B');
    expect(describeRest(plan, actions, actions, true)).toBe('2 actions match: 7.91 KiB saved for 1.25 ms');
    expect(describeAction(actions[0]!)).toBe('recompute · dense · Relu · saves 7.81 KiB, costs 1.25 ms · held long');
  });

  it('draws the budget between both curves', () => {
    const { picture } = drawCurves(plan.title, plan.curves, { width: 700, height: 300 }, palette);
    const highest = (name: string) =>
      Math.min(...(picture.shapes.find((shape) => shape.name === name) as Line).points.filter((_, index) => index % 2));
    expect(highest('before')).toBeLessThan(highest('budget'));
    expect(highest('budget')).toBeLessThan(highest('after'));
  });
});

describe('the frontier', () => {
  it('falls in steps from the smallest budget on', () => {
    const identity = { x: (bytes: number) => bytes, y: (slowdown: number) => slowdown, right: 20000 };
    expect(stairsOf(frontier, identity)).toEqual([7168, 0.31, 9216, 0.31, 9216, 0.14, 16384, 0.14, 16384, 0, 20000, 0]);
  });

  it('has round times', () => {
    expect(timeTicks(0.34)).toEqual([0, 0.1, 0.2, 0.30000000000000004]);
  });

  it('marks the plan, and says aloud what is smallest', () => {
    const { picture } = drawFrontier(frontier, 10240, 'a step', { width: 600, height: 300 }, palette);
    expect(picture.shapes.find((shape) => shape.kind === 'dot' && shape.name === 'this plan')).toMatchObject({
      fill: palette.sea,
    });
    expect(picture.title).toContain('7 KiB at +31% time');
  });

  it('lists few of many points, those with names among them', () => {
    const many = Array.from({ length: 100 }, (_, place) => ({
      bytes: 1000 - place,
      slowdown: place / 100,
      recomputed: place,
      name: place === 37 ? 'this plan' : '',
      note: '',
      chosen: place === 37,
      words: '',
    }));
    const rows = rowsOf(many, 10);
    expect(rows.length).toBeLessThanOrEqual(11);
    expect(rows).toContain(many[37]);
    expect([rows[0], rows.at(-1)]).toEqual([many[0], many[99]]);
  });
});
