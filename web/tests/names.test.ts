import { expect, test } from 'vitest';
import { escapeUnseen, showName } from '../src/names';
import { truncate, truncateAll } from '../src/graph/text';
import { measure } from './scenes';

const font = { size: 2, weight: 400 };

test('characters that cannot be seen or turn the text around are escaped', () => {
  expect(showName('a\u202etxt')).toBe('a\\u202etxt');
  expect(showName('\u2066a\u2069\u200b\ufeff\u0007')).toBe('\\u2066a\\u2069\\u200b\\ufeff\\u0007');
  expect(showName('two\nlines')).toBe('two\\u000alines');
  expect(escapeUnseen('two\nlines \u202e')).toBe('two\nlines \\u202e');
  expect(showName('naïve/名前/😀')).toBe('naïve/名前/😀');
});

test('an empty name is two quotes', () => {
  expect(showName('')).toBe('""');
  expect(escapeUnseen('')).toBe('');
});

test('of a path the middle goes, then the end of the last part', () => {
  expect(truncate('block1_bn/batchnorm/mul_1', 18, font, measure)).toBe('block1_bn/…/mul_1');
  expect(truncate('block1_bn/batchnorm/mul_1', 15, font, measure)).toBe('block1_bn/…/mu…');
  expect(truncate('block1_conv/convolution', 18, font, measure)).toBe('block1_conv/convo…');
  expect(truncate('block1_conv/convolution', 23, font, measure)).toBe('block1_conv/convolution');
  expect(truncate('block1_conv/convolution', 9, font, measure)).toBe('block…onv');
});

test('nodes of one layer keep both the layer and the node', () => {
  const names = ['mul_1', 'add_1'].map((node) => `block1a_project_bn_1/batchnorm/${node}`);
  expect(truncateAll(names, 22, font, measure)).toEqual(['block1a_…_bn_1/…/mul_1', 'block1a_…_bn_1/…/add_1']);
});

test('texts that differ stay different when they are cut', () => {
  const names = ['a', 'b'].map((letter) => `${'layer'.repeat(10)}${letter}${'s'.repeat(40)}`);
  const cut = truncateAll([...names, 'short', 'short'], 20, font, measure);
  expect(new Set(cut).size).toBe(3);
  expect(cut.every((text) => measure(text, font) <= 20)).toBe(true);
  expect(cut[0]).toContain('a');
});

test('names of captured variables lose the beginning and the end that all of them share', () => {
  const layers = ['dense_6_1_biasadd', 'dense_6_1_cast', 'embedding_1_embedding_lookup'];
  const names = layers.map((layer) => `functional_1_1_${layer}_readvariableop_resource`);
  expect(truncateAll([...names, 'functional_1', 'keras_tensor_10'], 30, font, measure))
    .toEqual([...layers.map((layer) => `…${layer}…`), 'functional_1', 'keras_tensor_10']);
});

test('names that differ in little keep what they share', () => {
  const names = ['multi_head_attention_1', 'multi_head_attention_2'];
  expect(truncateAll(names, 18, font, measure)).toEqual(['multi_head_…tion_1', 'multi_head_…tion_2']);
});

test('names of several layers keep as much of the layer as there is room for, and what differs', () => {
  const names = ['2_query_cast', '3_query_cast', '3_key_cast'].map((node) => `functional_1_multi_head_attention_${node}_readvariableop_resource`);
  const cut = truncateAll([...names, 'functional_1_dense_add_readvariableop_resource'], 24, font, measure);
  expect(cut).toEqual(['…multi_hea…2_query_cast…', '…multi_hea…3_query_cast…', '…multi_head_at…key_cast…', '…dense_add…']);
});
