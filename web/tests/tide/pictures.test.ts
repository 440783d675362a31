import { describe, expect, it } from 'vitest';
import { placeLabel } from '../../src/tide/axes';
import { drawTide, markLifetimes, shortenStart, type Overlay } from '../../src/tide/curve';
import type { Label, Line, Polygon, Shape } from '../../src/tide/picture';
import { captioned, fileName } from '../../src/tide/save';
import { describeFree, drawSpace, ladderAt, tileAt, tileFacts } from '../../src/tide/space';
import { svgText } from '../../src/tide/svg';
import { makeRecorded, makeTide, palette } from './tides';

const size = { width: 688, height: 352 };
const named = <Kind extends Shape>(shapes: Shape[], name: string) =>
  shapes.find((shape) => shape.name === name) as Kind;

describe('the curve', () => {
  it('stacks the kinds: the top of the last is the curve', () => {
    const data = makeTide();
    const { frame, picture } = drawTide(data, [], null, size, palette);
    const top = named<Polygon>(picture.shapes, 'gradients');
    const heights = data.curve.bytes.map((_, point) => top.points[2 * point + 1]!);
    data.curve.bytes.forEach((bytes, point) => expect(heights[point]).toBeCloseTo(frame.y(bytes)));
    expect(top.points[0]).toBe(frame.left);
  });

  it('shows a budget only where it is on the axis', () => {
    const shapes = (budget: number | null) => drawTide(makeTide(), [], budget, size, palette).picture.shapes;
    expect(named<Line>(shapes(10240), 'budget').stroke).toBe(palette.over);
    expect(named(shapes(2 ** 40), 'budget')).toBeUndefined();
    expect(named(shapes(null), 'safe')).toBeDefined();
  });

  it('draws other curves over the whole width, and makes room for a higher one', () => {
    const overlay: Overlay = {
      key: '2',
      label: 'other',
      colour: '#d6336c',
      dash: null,
      peakBytes: 20000,
      peakEvent: 50,
      curve: { events: 101, event: [0, 50, 100], bytes: [0, 20000, 0] },
    };
    const { frame, picture } = drawTide(makeTide(), [overlay], null, size, palette);
    const { points } = named<Line>(picture.shapes, 'overlay 2');
    expect(points[0]).toBe(frame.left);
    expect(points[2]).toBeCloseTo((frame.left + frame.right) / 2);
    expect(points[4]).toBe(frame.right);
    expect(points[3]).toBeGreaterThan(frame.top);
  });

  it('marks the life of a tensor', () => {
    const data = makeTide();
    const { frame } = drawTide(data, [], null, size, palette);
    const marks = markLifetimes(data, [0], frame, palette);
    const [box] = marks;
    expect(named<Label>(marks, 'lifetime-label').text).toBe('dense/Relu:0 · 4 KiB');
    expect(box).toMatchObject({ kind: 'boxes', name: 'lifetime' });
    const [left, , width] = (box as { boxes: number[] }).boxes;
    expect([left, left! + width!]).toEqual([frame.x(1 / 6), frame.x(5 / 6)]);
  });

  it('shortens names at their start', () => {
    expect(shortenStart('conv/Relu:0', 20)).toBe('conv/Relu:0');
    expect(shortenStart('sequential/conv/Relu:0', 12)).toBe('…conv/Relu:0');
  });

  it('keeps texts apart', () => {
    const label = (x: number, y: number): Label => ({ kind: 'label', x, y, text: 'safe bound', fill: '' });
    expect(placeLabel([label(0, 10), label(0, 40)], [label(20, 12)])?.y).toBe(40);
    expect(placeLabel([label(0, 10)], [label(20, 12)])).toBeNull();
  });
});

describe('the address space', () => {
  const data = makeRecorded();
  const space = data.space!;
  const { frame, picture } = drawSpace(data, space, { width: 788, height: 238 }, palette);

  it('draws every buffer, and waves where addresses are left out', () => {
    expect(picture.shapes.filter((shape) => shape.kind === 'boxes' && shape.name !== 'free')).toHaveLength(5);
    expect(named(picture.shapes, 'fold')).toBeDefined();
  });

  it('finds the buffer that is there, from a little off too', () => {
    const at = (event: number, share: number, off = 0) => tileAt(space, frame, frame.x(event), frame.y(share) + off);
    expect([at(2, 0.2), at(2, 0.5), at(2, 0.75), at(6.5, 0.2)]).toEqual([0, 1, null, null]);
    expect([at(2, 0.7, -1), at(2, 0.7, -9)]).toEqual([2, null]);
  });

  it('goes through what is alive by address', () => {
    expect(ladderAt(space, 4)).toEqual([0, 1, 2, 3, 4]);
    expect(ladderAt(space, 6)).toEqual([1, 2, 4]);
  });

  it('names a buffer, and what is free', () => {
    expect(tileFacts(data, space, 0)).toEqual({
      name: 'dense/Relu:0',
      kind: 'activations',
      texts: ['dense', 'float32 100×10', '4 KiB', 'events 1 to 5'],
    });
    expect(describeFree(data, space, 5)).toBe(
      '4.5 KiB are free after event 5; the largest block is 4 KiB, 11% of it is outside that block.',
    );
  });
});

describe('files', () => {
  it('escapes what names bring along', () => {
    const { picture } = drawTide(makeTide({ title: '<script>"&\u0000' }), [], null, size, palette);
    const text = svgText(picture);
    expect(text).not.toContain('<script>');
    expect(text).toContain('&lt;script&gt;&quot;&amp;\\u0000');
  });

  it('has a title above and the legend below', () => {
    const { picture } = drawTide(makeTide(), [], null, size, palette);
    const legend = Array.from({ length: 9 }, (_, place) => ({ text: `entry ${place}`, colour: '#000000' }));
    const whole = captioned(picture, { title: 'a tide', file: 'a', legend }, palette);
    expect(whole.height).toBeGreaterThan(picture.height + 44);
    expect(whole.shapes.filter((shape) => shape.kind === 'label' && shape.text.startsWith('entry'))).toHaveLength(9);
    const down =
      named<Polygon>(whole.shapes, 'weights').points[1]! - named<Polygon>(picture.shapes, 'weights').points[1]!;
    expect(down).toBe(44);
  });

  it('is named after the title', () => {
    expect([fileName('examples/train.py · batch 32'), fileName('../..'), fileName('')]).toEqual([
      'examples-train.py-batch-32',
      'lowtide',
      'lowtide',
    ]);
  });
});
