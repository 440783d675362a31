// A small tide whose every number is known; the one of the Python tests.
import type { TideData } from '../../src/tide/data';

const kinds = [
  ['weights', '#2f6fd0'],
  ['optimizer', '#7c5cd6'],
  ['input', '#3fa768'],
  ['slack', '#8d99a6'],
  ['activations', '#12a5b0'],
  ['gradients', '#f0794a'],
] as const;

export function makeTide(changes: Partial<TideData> = {}): TideData {
  return {
    title: 'train.py:build · batch 5',
    method_name: 'simulated',
    method: 'simulation',
    verdicts: {
      fits: 'fits in {budget}, with {margin} to spare',
      may_run_out: 'may run out in {budget}: the expected peak fits, the safe bound is {margin} over',
      does_not_fit: 'does not fit in {budget}: {margin} too much',
    },
    largest_batch: null,
    building: null,
    unmodelled: null,
    recorded: null,
    limit: null,
    free: null,
    pinning: null,
    recording: null,
    predicted: null,
    notes: [],
    peak_bytes: 8704,
    safe_bytes: 9216,
    budget_bytes: null,
    top_bytes: 9954,
    peak_event: 4,
    peak_place: 'gradient of dense (MatMul)',
    kinds: kinds.map(([name, colour]) => ({ name, colour })),
    curve: {
      events: 7,
      event: [0, 1, 2, 3, 4, 5, 6],
      bytes: [3584, 7680, 7680, 7680, 8704, 4608, 3584],
      node: [null, 0, 1, 1, 2, 2, 3],
      nodes: ['dense/Relu', 'dense/MatMul', 'gradient_tape/MatMul', 'adam/update'],
      alive: [3, 4, 4, 4, 5, 4, 3],
      strata: [
        [1000, 1000, 1000, 1000, 1000, 1000, 1000],
        [2000, 2000, 2000, 2000, 2000, 2000, 2000],
        [500, 500, 500, 500, 500, 500, 500],
        [84, 180, 180, 180, 204, 108, 84],
        [0, 4000, 4000, 4000, 4000, 0, 0],
        [0, 0, 0, 0, 1000, 1000, 0],
      ],
    },
    buffers: {
      count: 5,
      total: 5,
      name: ['dense/Relu:0', 'adam/velocity:0', 'dense/kernel:0', 'gradient_tape/MatMul:0', 'x:0'],
      kind: [4, 1, 0, 5, 2],
      bytes: [4096, 2048, 1024, 1024, 512],
      born: [1, 0, 0, 4, 0],
      died: [5, 7, 7, 6, 7],
      op: [0, 1, 1, 2, 3],
      ops: ['Relu', 'VarHandleOp', 'MatMul', '_Arg'],
      layer: [0, 0, 0, 0, null],
      layers: ['dense'],
      source: [0, null, null, 1, null],
      sources: ['train.py:7', 'train.py:9'],
      shape: [0, 1, 2, 3, 4],
      shapes: ['float32 100×10', 'float32 50×10', 'float32 25×10', 'float32 ?', 'float32 5×25'],
    },
    space: null,
    ...changes,
  };
}

/** Relu at the bottom, then velocity, x and the gradient, a hole between the last two; the kernel after a fold. */
export function makeRecorded(): TideData {
  return makeTide({
    method_name: 'recorded',
    recording: {
      allocator: 'cpu',
      step: 12,
      steps: [
        [11, 8192],
        [12, 8704],
      ],
    },
    space: {
      bytes: 9216,
      holes: 'of the 512 B that are free …',
      free: [4608, 512, 512, 512, 512, 4608, 5632],
      largest: [4096, 512, 512, 512, 512, 4096, 4096],
      bands: [
        [0, 0.8],
        [0.85, 1],
      ],
      folds: [[0.8, 0.85, 1040384]],
      ticks: [
        [0, 0],
        [0.4, 4096],
      ],
      tiles: {
        born: [1, 0, 0, 4, 0],
        died: [5, 7, 7, 6, 7],
        low: [0, 0.4, 0.65, 0.7, 0.85],
        high: [0.4, 0.6, 0.7, 0.8, 1],
        kind: [4, 1, 2, 5, 0],
        row: [0, 1, 4, 3, 2],
        shade: [1, 1, 1, 1, 1],
      },
    },
  });
}

export const palette = {
  card: '#ffffff',
  ink: '#10242d',
  muted: '#5c717b',
  line: '#dfe9ec',
  soft: '#edf4f6',
  sea: '#0d8f9b',
  over: '#d13a40',
};
