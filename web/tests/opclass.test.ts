import { expect, test } from 'vitest';
import { classifyOp } from '../src/graph/opclass';

test('layers of Keras have the colours of the ops that they run', () => {
  const names = ['InputLayer', 'Dense', 'EinsumDense', 'LSTM', 'MultiHeadAttention', 'Flatten', 'Embedding', 'Dropout', 'Rescaling'];
  expect(names.map((name) => classifyOp(name).name)).toEqual([
    'input and output', ...Array<string>(4).fill('matrix and convolution'), 'shape and copy', 'shape and copy', 'random', 'element by element',
  ]);
});
