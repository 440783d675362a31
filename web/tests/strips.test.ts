import { describe, expect, it } from 'vitest';
import { covers, intersect, missingStrips, outward, reachOut } from '../src/graph/strips';

const rectangle = (x: number, y: number, width: number, height: number) => ({ x, y, width, height });
const area = ({ width, height }: { width: number; height: number }) => width * height;

describe('strips of a bitmap', () => {
  it('together with what is painted make up the whole, and none lies over another', () => {
    const before = rectangle(20, 30, 40, 50);
    const after = rectangle(0, 0, 100, 100);
    const strips = missingStrips(before, after);
    expect(strips.map(area).reduce((sum, one) => sum + one, area(before))).toBe(area(after));
    const all = [before, ...strips];
    all.forEach((one, position) => all.slice(position + 1).forEach((other) => expect(intersect(one, other)).toBeNull()));
  });

  it('are none when nothing is missing', () => {
    expect(missingStrips(rectangle(0, 0, 9, 9), rectangle(0, 0, 9, 9))).toEqual([]);
  });

  it('reach further on the side of the movement only, and stay within the bitmap', () => {
    const painted = rectangle(100, 100, 200, 200);
    const limits = rectangle(0, 0, 330, 400);
    expect(reachOut(painted, rectangle(110, 100, 200, 200), limits)).toEqual(rectangle(100, 100, 230, 200));
    expect(reachOut(painted, rectangle(100, 90, 200, 200), limits)).toEqual(rectangle(100, 26, 200, 274));
    expect(reachOut(painted, rectangle(150, 150, 10, 10), limits)).toEqual(painted);
  });

  it('are of whole pixels', () => {
    expect(outward(rectangle(0.4, 1.5, 2, 2))).toEqual(rectangle(0, 1, 3, 3));
    expect(covers(outward(rectangle(0.4, 1.5, 2, 2)), rectangle(0.4, 1.5, 2, 2))).toBe(true);
  });
});
