import { describe, expect, it } from 'vitest';
import {
  aliveAt,
  axisTop,
  byteTicks,
  momentOf,
  nearest,
  nodeAt,
  pointAtShare,
  rowsOfTensor,
  sharesByKind,
  sharesByLayer,
  sum,
} from '../../src/tide/data';
import { verdictOn } from '../../src/tide/summary';
import { makeTide } from './tides';

describe('moments', () => {
  it('finds the nearest of sorted numbers', () => {
    expect([-5, 0, 4, 6, 90].map((value) => nearest([0, 5, 10], value))).toEqual([0, 0, 1, 1, 2]);
  });

  it('lays steps of different lengths over each other by share', () => {
    const curve = { events: 101, event: [0, 25, 50, 100] };
    expect([0, 0.26, 0.5, 1].map((share) => pointAtShare(curve, share))).toEqual([0, 1, 2, 3]);
  });

  it('names the node, and what is before the first', () => {
    const { curve } = makeTide();
    expect([nodeAt(curve, 0), nodeAt(curve, 4)]).toEqual(['before the step', 'gradient_tape/MatMul']);
  });

  it('chooses the highest moment of a life, and the peak without one', () => {
    const data = makeTide();
    expect([momentOf(data, []), momentOf(data, [0]), momentOf(data, [3])]).toEqual([4, 4, 4]);
    data.buffers.born[0] = 1;
    data.buffers.died[0] = 3;
    expect(momentOf(data, [0])).toBe(1);
  });

  it('takes the nearest point where a life lies between two', () => {
    const data = makeTide();
    data.curve = { ...data.curve, event: [0, 1, 2, 3, 40, 50, 60], events: 61 };
    data.buffers.born[0] = 42;
    data.buffers.died[0] = 45;
    expect(momentOf(data, [0])).toBe(4);
  });
});

describe('what a moment holds', () => {
  it('lists what is alive', () => {
    const { buffers } = makeTide();
    expect(aliveAt(buffers, 5).map((row) => buffers.name[row])).toEqual([
      'adam/velocity:0',
      'dense/kernel:0',
      'gradient_tape/MatMul:0',
      'x:0',
    ]);
  });

  it('adds up to the curve by kind, the largest first', () => {
    const shares = sharesByKind(makeTide(), 4);
    expect(shares.map((share) => share.label)).toEqual([
      'activations',
      'optimizer',
      'weights',
      'gradients',
      'input',
      'slack',
    ]);
    expect(sum(shares.map((share) => share.bytes))).toBe(8704);
  });

  it('adds up layers with their kinds', () => {
    const [dense, none] = sharesByLayer(makeTide(), 4, 10);
    expect(dense).toEqual({
      label: 'dense',
      bytes: 8192,
      parts: [
        ['#2f6fd0', 1024],
        ['#7c5cd6', 2048],
        ['#12a5b0', 4096],
        ['#f0794a', 1024],
      ],
    });
    expect(none?.label).toBe('(no layer)');
  });
});

describe('a tensor', () => {
  it('is found by its name, or by its node where only that is known', () => {
    const { buffers } = makeTide();
    expect(rowsOfTensor(buffers, 'dense/Relu:0')).toEqual([0]);
    expect(rowsOfTensor(buffers, 'dense/Relu')).toEqual([0]);
    expect(rowsOfTensor(buffers, 'dense')).toEqual([]);
    expect(rowsOfTensor(buffers, 'MatMul')).toEqual([3]);
  });

  it('has its largest buffer first', () => {
    const { buffers } = makeTide();
    buffers.name[3] = 'dense/Relu:0';
    expect(rowsOfTensor(buffers, 'dense/Relu:0')).toEqual([0, 3]);
  });
});

describe('axes and budgets', () => {
  it('ends the axis over a budget that is not far above', () => {
    expect([axisTop(1000, null), axisTop(1000, 1500), axisTop(1000, 2000)]).toEqual([1081, 1621, 1081]);
  });

  it('has ticks a power of two apart', () => {
    expect(byteTicks(1000, 6)).toEqual([0, 256, 512, 768]);
  });

  it('says whether it fits', () => {
    const words = (budget: number) => verdictOn(makeTide({ peak_bytes: 90, safe_bytes: 100 }), budget).reason;
    expect(words(120)).toBe('fits in 120 B, with 20 B to spare');
    expect(words(95)).toBe('may run out in 95 B: the expected peak fits, the safe bound is 5 B over');
    expect(words(80)).toBe('does not fit in 80 B: 10 B too much');
  });
});
