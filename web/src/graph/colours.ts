// What the colour of a box says: kind of op, phase, device, bytes, memory from a tide, or what changed.
import type { Item } from '../api';
import { countOf, formatBytes, formatCount } from '../amounts';
import { classifyOp } from './opclass';
import { textOn, type Palette } from './palette';

interface Paint {
  fill: string;
  stroke: string;
  text: string;
  /** For the second line. */
  soft: string;
}

export interface LegendEntry {
  label: string;
  fill: string;
  stroke: string;
}

export interface Colouring {
  paint(item: Item): Paint;
  /** Only what occurs among the items. */
  legend: LegendEntry[];
}

export const graphColours = [['', 'Kind of op'], ['phase', 'Phase'], ['device', 'Device'], ['bytes', 'Output bytes']] as const;
export const tideColours = [
  ['peak', 'Bytes at the peak'], ['produced', 'Bytes produced'], ['lifetime', 'Lifetime'], ['recomputed', 'Recomputed'],
] as const;

const tideModes = new Set<string>(tideColours.map(([mode]) => mode));
const phaseHues: Record<string, number | null> = { forward: 200, backward: 28, optimizer: 285, mixed: null };
const deviceHues = [200, 28, 140, 285, 340, 60, 170, 240];

export function isTideColour(mode: string): boolean {
  return tideModes.has(mode);
}

export function createColouring(mode: string, items: Item[], palette: Palette): Colouring {
  if (items.some((item) => item.change)) return colourChanges(items, palette);
  if (mode === 'phase') return colourNames(items, palette, (item) => item.phase ?? null, (name) => phaseHues[name] ?? null);
  if (mode === 'device') return colourDevices(items, palette);
  if (mode === 'bytes') return colourAmounts(items, palette, palette.bytes, (item) => item.bytes, formatBytes);
  if (isTideColour(mode)) return colourAmounts(items, palette, palette.heat, (item) => item.value ?? null, tideFormat(mode));
  return colourNames(items, palette, (item) => (contentOf(item) ? classifyOp(contentOf(item)).name : null),
    (_, item) => classifyOp(contentOf(item)).hue);
}

/** What a box mostly consists of: the op of a node, the main op of a group. */
function contentOf(item: Item): string {
  return item.op ?? item.main_op ?? '';
}

function tideFormat(mode: string): (value: number) => string {
  if (mode === 'lifetime') return (value) => countOf(Math.round(value), 'event');
  if (mode === 'recomputed') return (value) => `${formatCount(Math.round(value))} recomputed`;
  return formatBytes;
}

function colourNames(
  items: Item[], palette: Palette, nameOf: (item: Item) => string | null, hueOf: (name: string, item: Item) => number | null,
): Colouring {
  const seen = new Map<string, LegendEntry>();
  for (const item of items) {
    const name = nameOf(item);
    if (name && !seen.has(name)) seen.set(name, { label: name, ...palette.tint(hueOf(name, item)) });
  }
  return {
    legend: [...seen.values()].sort((one, other) => one.label.localeCompare(other.label)),
    paint(item) {
      const entry = seen.get(nameOf(item) ?? '');
      return entry ? { ...plain(palette), fill: entry.fill, stroke: entry.stroke } : plain(palette);
    },
  };
}

function colourDevices(items: Item[], palette: Palette): Colouring {
  const names = [...new Set(items.flatMap((item) => item.device ?? []))].sort();
  return colourNames(items, palette, (item) => (item.device ? shortDevice(item.device) : null),
    (_, item) => deviceHues[names.indexOf(item.device ?? '') % deviceHues.length] ?? null);
}

export function shortDevice(device: string): string {
  const match = /(?:task:(\d+))?\/device:(\w+:\d+)$/.exec(device);
  return match ? `${match[2]}${Number(match[1]) ? ` of task ${match[1]}` : ''}` : device;
}

/** Shades by the logarithm: bytes in one graph go from 4 to billions. */
function colourAmounts(
  items: Item[], palette: Palette, ramp: string[], amountOf: (item: Item) => number | null, format: (amount: number) => string,
): Colouring {
  const amounts = items.flatMap((item) => amountOf(item) || []);
  const least = Math.min(...amounts);
  const most = Math.max(...amounts);
  const step = (amount: number) => {
    const share = most > least ? Math.log(amount / least) / Math.log(most / least) : 1;
    return Math.min(ramp.length - 1, 1 + Math.floor(share * (ramp.length - 1)));
  };
  const entry = (label: string, place: number) => ({ label, fill: ramp[place] ?? palette.card, stroke: palette.line });
  const middle = Math.sqrt(least * most);
  return {
    legend: amounts.length
      ? [entry('none', 0), entry(format(least), 1), ...(most > 2 * least ? [entry(format(middle), step(middle))] : []),
        ...(most > least ? [entry(format(most), ramp.length - 1)] : [])]
      : [],
    paint(item) {
      const amount = amountOf(item);
      if (amount === null) return plain(palette);
      const fill = ramp[amount > 0 ? step(amount) : 0] ?? palette.card;
      return { fill, stroke: palette.line, text: textOn(fill), soft: textOn(fill) };
    },
  };
}

function colourChanges(items: Item[], palette: Palette): Colouring {
  const colours: Record<string, string> = { added: palette.good, removed: palette.over, changed: palette.changed, same: palette.line };
  const hues: Record<string, number | null> = { added: 145, removed: 357, changed: 38, same: null };
  const count = (change: string) => items.filter((item) => item.change === change).length;
  const paintOf = (change: string) => ({
    fill: change === 'same' ? palette.card : palette.tint(hues[change] ?? null).fill, stroke: colours[change] ?? palette.line,
  });
  return {
    legend: Object.keys(colours).filter(count).map((change) => ({ label: `${formatCount(count(change))} ${change}`, ...paintOf(change) })),
    paint: (item) => ({ ...plain(palette), ...paintOf(item.change ?? 'same') }),
  };
}

function plain(palette: Palette): Paint {
  return { fill: palette.card, stroke: palette.line, text: palette.ink, soft: palette.muted };
}

export function changeColour(change: string | undefined, palette: Palette): string | null {
  if (change === 'added') return palette.good;
  if (change === 'removed') return palette.over;
  return change === 'changed' ? palette.changed : null;
}
