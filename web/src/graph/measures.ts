// How large boxes are and what is written in them.
import type { Item } from '../api';
import { countOf, formatBytes, formatCount } from '../amounts';
import { showName } from '../names';
import type { Sheet as LayoutSheet } from './layout/shapes';
import { isFold, type Box, type Sheet } from './scene';
import { truncate, truncateAll, type Font, type Measure } from './text';

export const fonts = {
  title: { size: 13, weight: 600 },
  detail: { size: 11, weight: 400 },
  heading: { size: 13, weight: 650 },
  edge: { size: 10.5, weight: 500 },
} as const satisfies Record<string, Font>;

const boxHeight = 44;
export const headingHeight = 32;
const footerHeight = 18;
const widestText = 188;
const glyphRoom = 22;

interface BoxText {
  title: string;
  detail: string;
}

/** The two lines of a closed box, cut to fit; boxes of one sheet that differ have titles that differ. */
export function boxText({ item, sheet }: Box, measure: Measure): BoxText {
  return {
    title: sheetTitles(sheet, measure).get(item) ?? '',
    detail: truncate(describeItem(item), widestText, fonts.detail, measure),
  };
}

const titles = new WeakMap<Sheet, Map<Item, string>>();

function sheetTitles(sheet: Sheet, measure: Measure): Map<Item, string> {
  const known = titles.get(sheet);
  if (known) return known;
  const items = sheet.boxes.map(({ item }) => item);
  const texts = truncateAll(items.map(({ label }) => showName(label)), widestText, fonts.title, measure);
  const made = new Map(items.map((item, position) => [item, texts[position] ?? '']));
  titles.set(sheet, made);
  return made;
}

function describeItem(item: Item): string {
  const bytes = item.bytes ? formatBytes(item.bytes) : '';
  if (item.kind === 'node') return join(item.op ?? '', item.shape ?? '', item.shape ? '' : bytes);
  const op = isFold(item) && item.op && item.label !== item.op ? `${formatCount(item.nodes)} × ${item.op}` : countOf(item.nodes, 'node');
  return join(op, bytes);
}

function join(...parts: string[]): string {
  return parts.filter(Boolean).join(' · ');
}

function boxWidth(box: Box, measure: Measure): number {
  const { item } = box;
  const text = boxText(box, measure);
  const wide = Math.max(measure(text.title, fonts.title), measure(text.detail, fonts.detail));
  const room = item.kind === 'node' ? 34 : 26;
  return Math.round(Math.max(72, wide + room + (item.kind === 'node' && !item.calls?.length ? 0 : glyphRoom)));
}

export function headingText(sheet: Sheet): { title: string; detail: string } {
  const { screen, owner } = sheet;
  return { title: showName(owner?.item.label ?? screen.title), detail: countOf(screen.nodes, 'node') };
}

/** What a screen leaves out, or nothing. */
export function footerText(sheet: Sheet): string {
  const { hidden_items: items, hidden_edges: edges } = sheet.screen;
  return join(items ? `${formatCount(items)} more not shown` : '', edges ? `${countOf(edges, 'edge')} not drawn` : '');
}

/** The scene as the layout wants it. */
export function layoutInput(sheet: Sheet, name: string, measure: Measure): LayoutSheet {
  const heading = headingText(sheet);
  const headingWidth = Math.min(measure(heading.title, fonts.heading), 320) + measure(heading.detail, fonts.detail) + 76;
  return {
    name: `${name} ${sheet.owner?.id ?? ''}`,
    cells: sheet.boxes.map((box) => layoutCell(box, name, measure)),
    edges: sheet.screen.edges.filter(([from, to]) => from !== to).map(([from, to, count]) => [from, to, count]),
    top: sheet.owner ? headingHeight : 0,
    bottom: footerText(sheet) ? footerHeight : 0,
    leastWidth: sheet.owner ? headingWidth : 0,
  };
}

function layoutCell(box: Box, name: string, measure: Measure) {
  return {
    width: boxWidth(box, measure),
    height: boxHeight,
    inner: box.inner && layoutInput(box.inner, name, measure),
  };
}
