import { describe, expect, it } from 'vitest';
import { formatRoute, graphRoute, parseRoute, type Route } from '../src/route';

describe('an address', () => {
  it('is read as it was written', () => {
    const hash = '#graph/0.0?open=tower_0;tower_0/block_1&select=tower_0/block_1/add&colour=peak&tide=1';
    expect(parseRoute(hash)).toEqual(graphRoute('0.0', {
      open: ['tower_0', 'tower_0/block_1'], select: 'tower_0/block_1/add', colour: 'peak', tide: 1,
    }));
    expect(formatRoute(parseRoute(hash))).toBe(hash);
  });

  it.each<Route>([
    graphRoute('0.0', { open: ['a;b', 'c&d=e', '|*op Const', 'x%3By'], select: '<script>alert("ü")</script>', part: 3 }),
    graphRoute('1.2', { focus: { kind: 'around', name: 'a/b?c', hops: 3, direction: 'inputs' } }),
    graphRoute('1.2', { focus: { kind: 'paths', from: 'a#1', to: 'b→3:c' }, beside: '2.0', besideOpen: ['q'] }),
    graphRoute('0.0', { tensor: 'dense/Relu:0', tide: 4 }),
    { view: 'diff', one: '0.0', other: '1.0', open: ['a/b'], select: null },
    { view: 'tide', id: 1, options: { at: '17', over: '2,3' } },
    { view: 'plan', id: 2, options: {} },
    { view: 'run', id: 3, options: {} },
    { view: 'files' },
  ])('comes back the same: %o', (route) => {
    expect(parseRoute(formatRoute(route))).toEqual(route);
  });

  it('that nobody wrote leads to the list of files', () => {
    for (const hash of ['', '#', '#nothing', '#graph', '#diff/0.0', '#tide/x', '#plan/-1']) {
      expect(parseRoute(hash)).toEqual({ view: 'files' });
    }
  });

  it('that was cut in the middle of an escape still opens', () => {
    expect(parseRoute('#graph/0.0?select=a%2')).toMatchObject({ view: 'graph', select: 'a%2' });
  });

  it('asks for no more hops than there are', () => {
    expect(parseRoute('#graph/0.0?around=a&hops=99')).toMatchObject({ focus: { hops: 4 } });
  });
});
