import { describe, expect, it } from 'vitest';
import { formatAddress, parseAddress } from '../../src/tide/address';
import { formatSlowdown, formatTime } from '../../src/tide/format';
import { answersOf, describeSteps } from '../../src/tide/summary';
import { graphsOf } from '../../src/tide/locate';
import { assignLooks, overlayChoices } from '../../src/tide/overlays';
import { legendOf } from '../../src/tide/save';
import { firstRows, matchRows, sortRows } from '../../src/tide/table';
import { describeRest, describeTensor } from '../../src/tide/tensors';
import { makeTide } from './tides';

describe('the address', () => {
  it('comes back as it was', () => {
    const options = { at: '12', over: '2,3.after', tensor: 'dense/Relu:0', budget: '8GiB', filter: 'conv' };
    expect(formatAddress(parseAddress(options))).toEqual(options);
    expect(formatAddress(parseAddress({}))).toEqual({});
  });

  it('leaves out what makes no sense', () => {
    expect(parseAddress({ at: 'x', over: ',a,2.middle,7', budget: 'much' })).toEqual({
      at: null,
      over: [{ id: 7, curve: null }],
      tensor: null,
      budget: null,
      filter: '',
    });
  });
});

describe('other curves', () => {
  const files = [
    { id: 0, path: 'a.tide', kind: 'tide', title: 'a', peak_bytes: 1024, method: 'recorded' },
    { id: 1, path: 'b.tide', kind: 'tide' },
    { id: 2, path: 'c.plan', kind: 'plan' },
    { id: 3, path: 'events', kind: 'events', graphs: [{ id: '3.0', label: 'graph', state: 'ready' as const }] },
  ];

  it('are all tides but this one, and each plan before and after', () => {
    expect(overlayChoices(files, 1).map((choice) => choice.label)).toEqual([
      'a.tide',
      'c.plan, before',
      'c.plan, after',
    ]);
    expect(overlayChoices(files, 1)[0]?.about).toBe('a · recorded · peak 1 KiB');
  });

  it('keep their look while others come and go', () => {
    const three = assignLooks(['1', '2', '3'], new Map());
    expect([...assignLooks(['1', '3', '4'], three)]).toEqual([
      ['1', 0],
      ['3', 2],
      ['4', 1],
    ]);
  });

  it('say in the legend how far their peak is', () => {
    const overlay = {
      key: '1',
      label: 'b',
      colour: '',
      dash: null,
      peakBytes: 4352,
      peakEvent: 0,
      curve: { events: 1, event: [0], bytes: [1] },
    };
    expect(legendOf(makeTide(), [overlay]).at(-1)?.text).toBe('b: peak 4.25 KiB, 50.0% below');
  });

  it('and graphs are listed with their file', () => {
    expect(graphsOf(files)).toEqual([{ id: '3.0', label: 'graph', state: 'ready', path: 'events' }]);
  });
});

describe('tables', () => {
  const columns = [
    { value: (row: { name: string; size: number }) => row.name },
    { value: (row: { size: number }) => row.size },
  ];
  const rows = [
    { name: 'conv MatMul', size: 1 },
    { name: 'dense Relu', size: 3 },
    { name: 'dense MatMul', size: 2 },
  ];

  it('match all words, in any case, in texts only', () => {
    expect(matchRows(rows, columns, ' dense  matmul ')).toEqual([rows[2]]);
    expect(matchRows(rows, columns, '3')).toEqual([]);
  });

  it('sort without touching what they are given', () => {
    expect(sortRows(rows, (row) => row.size, true).map((row) => row.size)).toEqual([3, 2, 1]);
    expect(rows.map((row) => row.size)).toEqual([1, 3, 2]);
  });

  it('list a pinned row from further down', () => {
    expect(firstRows([1, 2, 3, 4], 2, (row) => row === 4)).toEqual([4, 1, 2]);
    expect(firstRows([1, 2, 3, 4], 2, (row) => row === 1)).toEqual([1, 2]);
  });
});

describe('words', () => {
  const data = makeTide();

  it('say what is not listed', () => {
    expect(describeRest(data, 4, [0, 1], [0, 1, 2, 3, 4], false)).toBe('and 3 more that hold 2.5 KiB');
    expect(describeRest(data, 4, [0], [0], true)).toBe('1 tensor matches, 4 KiB');
    expect(describeRest(data, 4, [0, 1, 2, 3, 4], [], false)).toBe('');
  });

  it('describe a tensor', () => {
    expect(describeTensor(data, [0])).toBe(
      'dense · Relu · float32 100×10 · activations · 4 KiB · alive from event 1 to 5, 17% to 83% of the step · train.py:7',
    );
  });

  it('answer for a budget', () => {
    expect(answersOf(data, 9000).at(-1)).toMatchObject({ about: 'In 8.79 KiB', value: 'May run out', fits: false });
    expect(answersOf(data, null)).toHaveLength(2);
  });

  it('list recorded steps', () => {
    expect(
      describeSteps({
        allocator: 'cpu',
        step: 12,
        steps: [
          [11, 8192],
          [12, 8704],
        ],
      }),
    ).toBe('peaks of the recorded steps: 11 8 KiB, 12 (this one) 8.5 KiB');
  });

  it('write times as the command line does', () => {
    expect([0, 0.4, 950, 999.6, 38200, 1.23e6, 2.5e8].map(formatTime)).toEqual([
      '0',
      '0',
      '950 µs',
      '1 ms',
      '38.2 ms',
      '1.23 s',
      '250 s',
    ]);
    expect([0.142, -0.001, -0.03].map(formatSlowdown)).toEqual(['+14%', '+0%', '-3%']);
  });
});
