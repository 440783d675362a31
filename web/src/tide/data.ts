// The data of a tide, and functions on it that need no page.

interface MemoryKind {
  name: string;
  colour: string;
}

/** A sampled curve: events in order, the bytes in use after each, and the node that ran, as an index into `nodes`. */
export interface Curve {
  events: number;
  event: number[];
  bytes: number[];
  node: (number | null)[];
  nodes: string[];
}

interface TideCurve extends Curve {
  /** The bytes of each kind at each point, in the order of `kinds`. */
  strata: number[][];
  /** The number of live buffers at each point. */
  alive: number[];
}

/** The largest buffers, as columns; `op`, `layer`, `source` and `shape` are indices into the tables beside them. */
export interface Buffers {
  count: number;
  /** The number of buffers of the tide. */
  total: number;
  name: string[];
  kind: number[];
  bytes: number[];
  born: number[];
  died: number[];
  op: (number | null)[];
  ops: string[];
  layer: (number | null)[];
  layers: string[];
  source: (number | null)[];
  sources: string[];
  shape: (number | null)[];
  shapes: string[];
}

export type TextColumn = 'op' | 'layer' | 'source' | 'shape';

/** The address space: shares of its height from the bottom up. */
export interface Space {
  bytes: number;
  holes: string | null;
  free: number[];
  largest: number[];
  bands: [low: number, high: number][];
  folds: [low: number, high: number, bytes: number][];
  ticks: [share: number, bytes: number][];
  tiles: {
    born: number[];
    died: number[];
    low: number[];
    high: number[];
    kind: number[];
    row: (number | null)[];
    shade: number[];
  };
}

export interface Recording {
  allocator: string;
  step: number | null;
  steps: [step: number, peak_bytes: number][];
}

export interface Predicted {
  peak_bytes: number;
  gap: string | null;
  events: number;
  event: number[];
  bytes: number[];
}

export type Verdict = 'fits' | 'may_run_out' | 'does_not_fit';

export interface TideData {
  title: string;
  method_name: string;
  method: string;
  /** The words for each verdict, with `{budget}` and `{margin}` to fill in. */
  verdicts: Record<Verdict, string>;
  largest_batch: { batch_size: number; text: string } | null;
  building: string | null;
  unmodelled: string | null;
  recorded: string | null;
  limit: string | null;
  free: string | null;
  pinning: string | null;
  recording: Recording | null;
  predicted: Predicted | null;
  notes: string[];
  peak_bytes: number;
  safe_bytes: number;
  budget_bytes: number | null;
  top_bytes: number;
  peak_event: number;
  peak_place: string;
  kinds: MemoryKind[];
  curve: TideCurve;
  buffers: Buffers;
  space: Space | null;
}

/** The index of the number in a sorted list that is nearest to `value`. */
export function nearest(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low > 0 && value - sorted[low - 1]! < sorted[low]! - value ? low - 1 : low;
}

/** Where an event is in its step, from 0 to 1; steps with different numbers of events are compared by this. */
export function shareOf(curve: { events: number }, event: number): number {
  return event / Math.max(curve.events - 1, 1);
}

export function pointAtShare(curve: { events: number; event: number[] }, share: number): number {
  return nearest(curve.event, share * (curve.events - 1));
}

export function nodeAt(curve: Curve, point: number): string {
  const node = curve.node[point];
  return (node === null || node === undefined ? undefined : curve.nodes[node]) ?? 'before the step';
}

export function textOf(buffers: Buffers, column: TextColumn, row: number): string | null {
  const place = buffers[column][row];
  return place === null || place === undefined ? null : (buffers[`${column}s`][place] ?? null);
}

/** The rows of the buffers that are alive after an event. */
export function aliveAt(buffers: Buffers, event: number): number[] {
  const rows: number[] = [];
  for (let row = 0; row < buffers.count; row += 1) if (isAlive(buffers, row, event)) rows.push(row);
  return rows;
}

export function isAlive(buffers: Buffers, row: number, event: number): boolean {
  return buffers.born[row]! <= event && event < buffers.died[row]!;
}

/**
 * The rows of a tensor, the largest first. For the name of a node, those of all its outputs. A name from a graph lacks
 * the names of the calls around it, which the executed step puts first; then those whose names end with it.
 */
export function rowsOfTensor(buffers: Buffers, tensor: string): number[] {
  const node = nodeOfTensor(tensor);
  const tests: ((name: string) => boolean)[] = [
    (name) => name === tensor,
    (name) => nodeOfTensor(name) === node,
    (name) => nodeOfTensor(name).endsWith(`/${node}`),
  ];
  for (const test of tests) {
    const rows = buffers.name.flatMap((name, row) => (test(name) ? [row] : []));
    if (rows.length) return rows.sort((one, other) => buffers.bytes[other]! - buffers.bytes[one]!);
  }
  return [];
}

/** The highest moment while one of the rows is alive; the peak without rows. */
export function momentOf(data: TideData, rows: number[]): number {
  const { curve, buffers } = data;
  const alive = curve.event.flatMap((event, point) =>
    rows.some((row) => isAlive(buffers, row, event)) ? [point] : [],
  );
  if (alive.length) return alive.reduce((best, point) => (curve.bytes[point]! > curve.bytes[best]! ? point : best));
  // A lifetime between two points of the curve counts as being at the nearer one.
  return nearest(curve.event, rows.length ? buffers.born[rows[0]!]! : data.peak_event);
}

/** The node that makes a tensor: "dense/Relu" for "dense/Relu:0". */
function nodeOfTensor(tensor: string): string {
  return tensor.replace(/:\w+$/, '');
}

export interface Share {
  label: string;
  bytes: number;
  /** The bytes of each kind, in the order of the kinds. */
  parts: [colour: string, bytes: number][];
}

export function sharesByKind(data: TideData, point: number): Share[] {
  return data.kinds
    .map((kind, row) => ({ label: kind.name, bytes: data.curve.strata[row]![point]!, colour: kind.colour }))
    .filter((share) => share.bytes > 0)
    .sort((one, other) => other.bytes - one.bytes)
    .map(({ label, bytes, colour }) => ({ label, bytes, parts: [[colour, bytes]] }));
}

/** The layers that hold most memory at a point of the curve. */
export function sharesByLayer(data: TideData, point: number, most: number): Share[] {
  const { buffers, kinds, curve } = data;
  const layers = new Map<string, number[]>();
  for (const row of aliveAt(buffers, curve.event[point]!)) {
    const layer = textOf(buffers, 'layer', row) ?? '(no layer)';
    const held = layers.get(layer) ?? kinds.map(() => 0);
    held[buffers.kind[row]!]! += buffers.bytes[row]!;
    layers.set(layer, held);
  }
  const shares = [...layers].map(([label, held]): Share => ({
    label,
    bytes: sum(held),
    parts: kinds.flatMap((kind, index): [string, number][] => (held[index] ? [[kind.colour, held[index]]] : [])),
  }));
  return shares.sort((one, other) => other.bytes - one.bytes).slice(0, most);
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** The end of the axis of bytes: above everything drawn, and above the budget unless that is much higher. */
export function axisTop(highest: number, budget: number | null): number {
  const top = Math.max(highest, 1);
  return Math.floor((budget !== null && budget <= 1.8 * top ? Math.max(top, budget) : top) * 1.08) + 1;
}

/** About `most` amounts from 0 to `top`, a power of two apart, so that they are round. */
export function byteTicks(top: number, most: number): number[] {
  let step = 1;
  while (top / step > most) step *= 2;
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, tick) => tick * step);
}
