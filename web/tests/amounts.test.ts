import { expect, it } from 'vitest';
import { countOf, formatBytes, formatShort, parseBytes } from '../src/amounts';
import { fit, keepInPlace, readableScale, toScreen, zoomAt } from '../src/graph/camera';
import { createColouring } from '../src/graph/colours';
import { classifyOp } from '../src/graph/opclass';
import { paletteOf } from '../src/graph/palette';
import { truncate } from '../src/graph/text';
import { item, measure } from './scenes';

it('bytes are written as the command line writes them', () => {
  expect([0, 1023, 1024, 1536, 10 * 1024, 3 * 2 ** 30].map(formatBytes)).toEqual(['0 B', '1023 B', '1 KiB', '1.5 KiB', '10 KiB', '3 GiB']);
});

it('bytes are read in the units a person writes', () => {
  expect(['4096', '1 MiB', '2k', '1.5g', 'many', ''].map(parseBytes)).toEqual([4096, 2 ** 20, 2048, 1.5 * 2 ** 30, null, null]);
});

it('counts are short on lines and whole in sentences', () => {
  expect([7, 1234, 27_808, 999_499, 1_000_000, 12_345_678].map(formatShort)).toEqual(['7', '1.2k', '28k', '999k', '1M', '12M']);
  expect([countOf(1, 'node'), countOf(27_808, 'node')]).toEqual(['1 node', '27,808 nodes']);
});

it('a name too long for its box keeps its beginning and its end', () => {
  const font = { size: 10, weight: 400 };
  const cut = truncate('block_12_expand_depthwise_BatchNorm', 60, font, measure);
  expect(measure(cut, font)).toBeLessThanOrEqual(60);
  expect(cut).toMatch(/^block.*….*rm$/);
  expect(truncate('short', 60, font, measure)).toBe('short');
});

it('a first view shows everything when it can be read, else the top', () => {
  const canvas = { width: 1000, height: 500 };
  expect(toScreen(fit({ width: 400, height: 200 }, canvas), { x: 200, y: 100, width: 0, height: 0 })).toMatchObject({ x: 500, y: 250 });
  const large = fit({ width: 20_000, height: 9000 }, canvas, readableScale, 10_000);
  expect(large.scale).toBe(readableScale);
  expect(toScreen(large, { x: 10_000, y: 0, width: 0, height: 0 }).x).toBeCloseTo(500);
  expect(large.top).toBeGreaterThan(0);
});

it('what is under the pointer stays there', () => {
  const camera = { scale: 0.5, left: 30, top: -20 };
  const zoomed = zoomAt(camera, 100, 100, 2);
  expect([(100 - zoomed.left) / zoomed.scale, (100 - zoomed.top) / zoomed.scale]).toEqual([140, 240]);
  const [before, after] = [{ x: 10, y: 20, width: 1, height: 1 }, { x: 300, y: 500, width: 1, height: 1 }];
  const kept = keepInPlace(camera, before, after);
  expect(toScreen(kept, after)).toEqual(toScreen(camera, before));
});

it('ops are told apart by what they do', () => {
  const names = ['MatMul', 'Const', 'ReadVariableOp', 'ResourceApplyAdam', 'StatefulPartitionedCall', 'Relu', 'Sum', 'Reshape', 'Placeholder'];
  expect(names.map((op) => classifyOp(op).name)).toEqual(['matrix and convolution', 'constant', 'variable and state', 'optimizer update',
    'call and control flow', 'element by element', 'reduction and normalization', 'shape and copy', 'input and output']);
});

it('a legend holds what occurs, and nothing else', () => {
  const palette = paletteOf('light');
  const items = [item('a', 'node', { op: 'MatMul', bytes: 8 }), item('b', 'node', { op: 'Const', bytes: 2 ** 20 }), item('c')];
  expect(createColouring('', items, palette).legend.map(({ label }) => label)).toEqual(['constant', 'matrix and convolution']);
  expect(createColouring('bytes', items, palette).legend.map(({ label }) => label)).toEqual(['none', '8 B', '2.83 KiB', '1 MiB']);
  expect(createColouring('', [item('a', 'node', { change: 'added' })], palette).legend.map(({ label }) => label)).toEqual(['1 added']);
});
