// The picture of the address space over the step: the address of each buffer, and the free space between them.
import { formatBytes, formatCount } from '../amounts';
import { drawEnds, margin, plotArea, type PlotArea } from './axes';
import type { ChartSize } from './chart';
import { textOf, type Space, type TideData } from './data';
import { type ChartPalette, type Picture, type Points, type Shape } from './picture';

/** Maps an event and a share of the space to coordinates in the chart. */
export interface SpaceFrame extends PlotArea {
  x(event: number): number;
  y(share: number): number;
  eventAt(x: number): number;
  shareAt(y: number): number;
}

function spaceFrame(size: ChartSize, events: number): SpaceFrame {
  const area = plotArea(size, { ...margin, top: 12 });
  const { left, right, top, bottom } = area;
  return {
    ...area,
    x: (event) => left + (event / events) * (right - left),
    y: (share) => bottom - share * (bottom - top),
    eventAt: (x) => ((x - left) / Math.max(right - left, 1)) * events,
    shareAt: (y) => (bottom - y) / Math.max(bottom - top, 1),
  };
}

export function drawSpace(
  data: TideData,
  space: Space,
  size: ChartSize,
  palette: ChartPalette,
): { frame: SpaceFrame; picture: Picture } {
  const frame = spaceFrame(size, data.curve.events);
  const free = space.bands.flatMap(([low, high]) => boxOf(frame.left, frame.right, frame.y(low), frame.y(high)));
  const ticks = space.ticks.map(([share, bytes]): Shape => ({
    kind: 'label',
    x: frame.left - 10,
    y: frame.y(share) + 4,
    text: bytes ? formatBytes(bytes) : '0',
    fill: palette.muted,
    anchor: 'end',
  }));
  const shapes: Shape[] = [
    { kind: 'boxes', boxes: free, fill: palette.soft, name: 'free' },
    ...ticks,
    ...drawEnds(frame, `${formatCount(data.curve.events - 1)} events`, palette),
    ...drawTiles(data, space, frame, palette),
    ...drawFolds(space, frame, palette),
  ];
  return { frame, picture: { ...size, background: palette.card, title: describeSpace(data, space), shapes } };
}

export function describeSpace(data: TideData, space: Space): string {
  return [`${data.title}: addresses over the step, ${formatBytes(space.bytes)}`, space.holes]
    .filter(Boolean)
    .join('; ');
}

// At least half a pixel each way, or a thin buffer would be invisible.
function boxOf(left: number, right: number, bottom: number, top: number): number[] {
  const height = Math.max(bottom - top, 0.5);
  return [left, bottom - height, Math.max(right - left, 0.5), height];
}

export function tileBox({ tiles }: Space, tile: number, frame: SpaceFrame): number[] {
  return boxOf(
    frame.x(tiles.born[tile]!),
    frame.x(tiles.died[tile]!),
    frame.y(tiles.low[tile]!),
    frame.y(tiles.high[tile]!),
  );
}

// One shape for each colour and shade, so that thousands of buffers are a few shapes. Only tall buffers get an edge.
function drawTiles(data: TideData, space: Space, frame: SpaceFrame, palette: ChartPalette): Shape[] {
  const { tiles } = space;
  const looks = new Map<string, Shape & { kind: 'boxes' }>();
  for (let tile = 0; tile < tiles.born.length; tile += 1) {
    const box = tileBox(space, tile, frame);
    const tall = box[3]! > 3 && box[2]! > 2;
    const kind = data.kinds[tiles.kind[tile]!]!;
    const key = `${kind.name} ${tiles.shade[tile]} ${tall}`;
    const edge = tall ? { edge: palette.card, edgeWidth: 0.6 } : {};
    const look = looks.get(key) ?? {
      kind: 'boxes',
      boxes: [],
      fill: kind.colour,
      opacity: tiles.shade[tile]!,
      name: kind.name,
      ...edge,
    };
    look.boxes.push(...box);
    looks.set(key, look);
  }
  return [...looks.values()];
}

// A wave for each range of addresses that is left out because no buffer covers it.
function drawFolds(space: Space, frame: SpaceFrame, palette: ChartPalette): Shape[] {
  return space.folds.map(([low, high]) => {
    const middle = (frame.y(low) + frame.y(high)) / 2;
    const points: Points = [];
    for (let x = frame.left; x <= frame.right; x += 2) points.push(x, middle + 1.8 * Math.sin((x - frame.left) / 2.6));
    return { kind: 'line', points, stroke: palette.muted, name: 'fold' };
  });
}

/** The tile at a place, or a thin tile nearby; single buffers take precedence over merged cells. */
export function tileAt({ tiles }: Space, frame: SpaceFrame, x: number, y: number): number | null {
  const [event, share] = [frame.eventAt(x), frame.shareAt(y)];
  let found: number | null = null;
  let nearest = 2 / Math.max(frame.bottom - frame.top, 1);
  for (let tile = 0; tile < tiles.born.length; tile += 1) {
    if (!isThere(tiles, tile, event)) continue;
    const away = Math.max(tiles.low[tile]! - share, share - tiles.high[tile]!, 0);
    if (away < nearest || (away === nearest && tiles.row[tile] !== null)) [found, nearest] = [tile, away];
  }
  return found;
}

function isThere(tiles: Space['tiles'], tile: number, event: number): boolean {
  return tiles.born[tile]! <= event && event < tiles.died[tile]!;
}

/** The single buffers that are alive after an event, by their addresses. */
export function ladderAt({ tiles }: Space, event: number): number[] {
  return [...tiles.born.keys()]
    .filter((tile) => tiles.row[tile] !== null && isThere(tiles, tile, event))
    .sort((one, other) => tiles.low[one]! - tiles.low[other]!);
}

/** The description of a tile. */
export function tileFacts(
  data: TideData,
  { tiles }: Space,
  tile: number,
): { name: string; kind: string; texts: string[] } {
  const row = tiles.row[tile] ?? null;
  const kind = data.kinds[tiles.kind[tile]!]!.name;
  if (row === null) return { name: `many small buffers, most of them ${kind}`, kind, texts: [] };
  const { buffers } = data;
  const life = `events ${formatCount(tiles.born[tile]!)} to ${formatCount(tiles.died[tile]!)}`;
  const texts = [textOf(buffers, 'layer', row), textOf(buffers, 'shape', row), formatBytes(buffers.bytes[row]!), life];
  return { name: buffers.name[row]!, kind, texts: texts.filter((text) => text !== null) };
}

/** The free space at a point of the curve, and its largest block. */
export function describeFree(data: TideData, space: Space, point: number): string {
  const after = `after event ${formatCount(data.curve.event[point]!)}`;
  const [free, largest] = [space.free[point]!, space.largest[point]!];
  if (free === 0) return `Nothing is free between the buffers ${after}.`;
  const outside = `${Math.round(100 * (1 - largest / free))}% of it is outside that block`;
  return `${formatBytes(free)} are free ${after}; the largest block is ${formatBytes(largest)}, ${outside}.`;
}
