import type { Item, Screen, ScreenEdge } from '../src/api';
import { createColouring } from '../src/graph/colours';
import type { Look } from '../src/graph/display';
import { paletteOf } from '../src/graph/palette';

export function item(key: string, kind: Item['kind'] = 'scope', changes: Partial<Item> = {}): Item {
  return { key, kind, label: key.split('/').pop() ?? key, nodes: kind === 'node' ? 1 : 10, bytes: 0, phase: 'forward', calls: [], ...changes };
}

export function screen(path: string, items: Item[], edges: ScreenEdge[] = [], changes: Partial<Screen> = {}): Screen {
  return {
    part: 0, path, fold: '', title: path, nodes: items.reduce((sum, { nodes }) => sum + nodes, 0), children: items.length,
    items, edges, incoming: [], outgoing: [], hidden_items: 0, hidden_edges: 0, ...changes,
  };
}

/** Every character as wide as half its height, so that tests need no browser. */
export const measure: Look['measure'] = (text, { size }) => (text.length * size) / 2;

export function look(items: Item[]): Look {
  const palette = paletteOf('light');
  return { palette, measure, centres: [], colouring: createColouring('', items, palette) };
}
