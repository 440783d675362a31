import { describe, expect, it } from 'vitest';
import { layoutSheet } from '../src/graph/layout/nest';
import { assignRanks, dropCycles, findGroups } from '../src/graph/layout/ranks';
import { placeBoxes } from '../src/graph/layout/sheet';
import type { Cell, PlacedCell, PlacedSheet, Sheet } from '../src/graph/layout/shapes';

const box = (inner: Sheet | null = null): Cell => ({ width: 100, height: 40, inner });

function sheet(name: string, cells: Cell[], edges: [number, number][]): Sheet {
  return { name, cells, edges: edges.map(([from, to]) => [from, to, 1]), top: 30, bottom: 0, leastWidth: 0 };
}

function overlaps(one: PlacedCell, other: PlacedCell): boolean {
  return one.x < other.x + other.width && other.x < one.x + one.width && one.y < other.y + other.height && other.y < one.y + one.height;
}

function expectTidy({ cells, routes, width, height }: PlacedSheet): void {
  cells.forEach((cell, position) => {
    expect(cell.x).toBeGreaterThanOrEqual(0);
    expect(cell.x + cell.width).toBeLessThanOrEqual(width);
    expect(cell.y + cell.height).toBeLessThanOrEqual(height);
    for (const other of cells.slice(position + 1)) expect(overlaps(cell, other)).toBe(false);
  });
  const across = routes.flat().filter((_, place) => place % 2 === 0);
  expect(Math.min(0, ...across)).toBe(0);
  expect(Math.max(width, ...across)).toBe(width);
}

describe('curves', () => {
  it('that go back or around stay inside of the sheet', () => {
    expectTidy(layoutSheet(sheet('loop', [box(), box(), box(), box()], [[0, 1], [1, 2], [2, 3], [3, 0]])));
    expectTidy(layoutSheet(sheet('around', [box(), box(), box(), box()], [[0, 1], [1, 2], [2, 3], [0, 3], [0, 2]])));
  });
});

describe('ranks', () => {
  it('put readers below what they read, and constants next to their readers', () => {
    // 0 → 1 → 2, and 3 is read by 2 alone.
    expect(assignRanks(4, [[0, 1], [1, 2], [3, 2]])).toEqual([0, 1, 2, 1]);
  });

  it('are found after the lightest edge of a cycle is left out', () => {
    expect(dropCycles(3, [[0, 1, 5], [1, 2, 1], [2, 0, 9]])).toEqual([[0, 1, 5], [2, 0, 9]]);
  });

  it('separate boxes that no edges connect', () => {
    expect(findGroups(5, [[0, 3], [4, 3]])).toEqual([[0, 3, 4], [1], [2]]);
  });
});

describe('a layout', () => {
  it('goes from top to bottom without overlaps', () => {
    const placed = layoutSheet(sheet('', [box(), box(), box(), box()], [[0, 1], [0, 2], [1, 3], [2, 3]]));
    expectTidy(placed);
    const [first, left, right, last] = placed.cells.map(({ y }) => y);
    expect(left).toBe(right);
    expect(first).toBeLessThan(left as number);
    expect(last).toBeGreaterThan(left as number);
  });

  it('gives an open box the size of what is inside it, and moves the rest away', () => {
    const inner = sheet('inner', [box(), box()], [[0, 1]]);
    const placed = layoutSheet(sheet('', [box(), box(inner), box()], [[0, 1], [1, 2]]));
    expectTidy(placed);
    const open = placed.cells[1] as PlacedCell;
    expectTidy(open.inner as PlacedSheet);
    expect(open.width).toBe(open.inner?.width);
    expect(open.height).toBe(open.inner?.height);
    expect(open.height).toBeGreaterThan(2 * 40);
    expect(placed.cells[2]?.y).toBeGreaterThan(open.y + open.height);
  });

  it('draws edges from border to border', () => {
    const placed = layoutSheet(sheet('', [box(), box(), box()], [[0, 1], [1, 2], [0, 2]]));
    placed.routes.forEach((route, position) => {
      const [from, to] = [[0, 1], [1, 2], [0, 2]][position] as [number, number];
      const [source, target] = [placed.cells[from], placed.cells[to]] as [PlacedCell, PlacedCell];
      expect(route[1]).toBeCloseTo(source.y + source.height);
      expect(route.at(-1)).toBeCloseTo(target.y);
      expect((route.length - 2) % 6).toBe(0);
      expect(route.every(Number.isFinite)).toBe(true);
    });
  });

  it('does not need an end to a cycle', () => {
    const placed = layoutSheet(sheet('', [box(), box()], [[0, 1], [1, 0]]));
    expectTidy(placed);
    expect(placed.routes).toHaveLength(2);
  });

  it('packs boxes without edges into rows, not one line', () => {
    const { width, height } = placeBoxes(Array.from({ length: 120 }, () => ({ width: 100, height: 40 })), []);
    expect(width).toBeLessThan(3 * height);
  });

  it('wraps a row that would be too wide to read', () => {
    const sizes = Array.from({ length: 61 }, () => ({ width: 100, height: 40 }));
    const { width } = placeBoxes(sizes, sizes.slice(1).map((_, position) => [position + 1, 0]));
    expect(width).toBeLessThan(1500);
  });

  it('of a full screen, 120 boxes and 400 edges, is tidy', () => {
    const edges = Array.from({ length: 400 }, (_, position): [number, number] => {
      const from = (position * 7) % 119;
      return [from, Math.min(119, from + 1 + ((position * 13) % 30))];
    });
    expectTidy(layoutSheet(sheet('', Array.from({ length: 120 }, () => box()), edges)));
  });

  it('of nothing is empty', () => {
    expect(layoutSheet(sheet('', [], [])).cells).toEqual([]);
  });
});
