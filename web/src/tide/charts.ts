// The two interactive charts of a tide: the curve and the address space.
import { formatBytes, formatCount } from '../amounts';
import { element, swatch } from '../dom';
import { createChart, type Chart, type Key, type PlaceDescription } from './chart';
import { describeTide, drawTide, markLifetimes, markMoment, type Overlay } from './curve';
import { nodeAt, pointAtShare, shareOf, sharesByKind, type Space, type TideData } from './data';
import { describeSpace, drawSpace, ladderAt, tileAt, tileBox, tileFacts, type SpaceFrame } from './space';
import type { Frame } from './axes';
import type { Shape } from './picture';

/** What both charts show. */
export interface Shown {
  data: TideData;
  /** The chosen moment, as an index into the curve. */
  point: number;
  overlays: Overlay[];
  budget: number | null;
  /** The buffers of the selected tensor. */
  rows: number[];
}

interface ChartActions {
  /** Choose a moment, and a tensor if one is given. */
  choose(event: number, tensor?: string): void;
}

/** A place in the address space: a moment, and the tile there, if any. */
interface SpacePlace {
  event: number;
  tile: number | null;
}

export function createCurveChart(shown: () => Shown, actions: ChartActions): Chart {
  let frame: Frame | null = null;
  const last = () => shown().data.curve.event.length - 1;
  return createChart<number>({
    className: 'curve',
    surface: 'svg',
    label: () => `${describeTide(shown().data, shown().budget)}. Arrow keys read a moment, Enter chooses it.`,
    paint: (size, palette) => {
      const { data, overlays, budget } = shown();
      const drawn = drawTide(data, overlays, budget, size, palette);
      frame = drawn.frame;
      return drawn.picture;
    },
    marks: (pointed, palette) => {
      if (!frame) return [];
      const { data, point, rows } = shown();
      const x = (at: number) => frame!.x(shareOf(data.curve, data.curve.event[at]!));
      const marks: Shape[] = markLifetimes(data, rows, frame, palette);
      if (data.curve.event[point] !== data.peak_event) marks.push(markMoment(x(point), frame, true, palette));
      if (pointed !== null) marks.push(markMoment(x(pointed), frame, false, palette));
      return marks;
    },
    at: (x) => pointAtShare(shown().data.curve, frame?.shareAt(x) ?? 0),
    move: (from, key, many) => moveAlong(from ?? shown().point, key, many, last()),
    choose: (point) => actions.choose(shown().data.curve.event[point]!),
    describe: (point) => describeMoment(shown(), point, frame!),
  });
}

function moveAlong(from: number, key: Key, many: boolean, last: number): number | null {
  if (key === 'Home' || key === 'End') return key === 'Home' ? 0 : last;
  if (key !== 'ArrowLeft' && key !== 'ArrowRight') return null;
  const step = (key === 'ArrowLeft' ? -1 : 1) * (many ? 10 : 1);
  return Math.min(last, Math.max(0, from + step));
}

function describeMoment({ data, overlays }: Shown, point: number, frame: Frame): PlaceDescription {
  const event = data.curve.event[point]!;
  const share = shareOf(data.curve, event);
  const held = formatBytes(data.curve.bytes[point]!);
  const kinds = sharesByKind(data, point).map((each) => ({
    name: each.label,
    bytes: each.bytes,
    colour: each.parts[0]![0],
  }));
  const others = overlays.map((overlay) => ({
    name: overlay.label,
    colour: overlay.colour,
    bytes: overlay.curve.bytes[pointAtShare(overlay.curve, share)]!,
  }));
  const rowOf = ({ name, bytes, colour }: { name: string; bytes: number; colour: string }) =>
    element(
      'div',
      { class: 'row' },
      swatch(colour),
      element('span', {}, name),
      element('span', {}, formatBytes(bytes)),
    );
  return {
    x: frame.x(share),
    rows: [
      element('div', {}, element('b', {}, held), ` after event ${formatCount(event)}`),
      element('div', { class: 'node' }, nodeAt(data.curve, point)),
      ...kinds.map(rowOf),
      ...(others.length
        ? [element('div', { class: 'apart' }, `at ${Math.round(100 * share)}% of the step`), ...others.map(rowOf)]
        : []),
    ],
    words: [
      `${held} after event ${formatCount(event)}`,
      nodeAt(data.curve, point),
      ...[...kinds, ...others].map((each) => `${each.name} ${formatBytes(each.bytes)}`),
    ].join(', '),
  };
}

export function createSpaceChart(shown: () => Shown & { space: Space }, actions: ChartActions): Chart {
  let frame: SpaceFrame | null = null;
  return createChart<SpacePlace>({
    className: 'space',
    surface: 'canvas',
    label: () =>
      `${describeSpace(shown().data, shown().space)}. Up and down go through the buffers that are alive, ` +
      'left and right through the step; Enter selects a buffer.',
    paint: (size, palette) => {
      const { data, space } = shown();
      const drawn = drawSpace(data, space, size, palette);
      frame = drawn.frame;
      return drawn.picture;
    },
    marks: (pointed, palette) => {
      if (!frame) return [];
      const { data, space, point, rows } = shown();
      const selected = [...space.tiles.row.keys()].filter((tile) => rows.includes(space.tiles.row[tile] ?? -1));
      const outlined = pointed === null || pointed.tile === null ? selected : [...selected, pointed.tile];
      return [
        markMoment(frame.x(data.curve.event[point]! + 0.5), frame, true, palette),
        ...outlined.map((tile): Shape => ({
          kind: 'boxes',
          boxes: tileBox(space, tile, frame!),
          fill: 'none',
          edge: palette.ink,
          edgeWidth: 2,
          name: 'outlined',
        })),
      ];
    },
    at: (x, y) => {
      if (!frame || x < frame.left || x > frame.right) return null;
      return { event: Math.floor(frame.eventAt(x)), tile: tileAt(shown().space, frame, x, y) };
    },
    move: (from, key, many) => {
      const { data, space, point } = shown();
      const aside = moveAlong(point, key, many, data.curve.event.length - 1);
      if (aside !== null) {
        actions.choose(data.curve.event[aside]!);
        return { event: data.curve.event[aside]!, tile: from?.tile ?? null };
      }
      const event = data.curve.event[point]!;
      return { event, tile: climb(ladderAt(space, event), from?.tile ?? null, key === 'ArrowUp') };
    },
    choose: ({ event, tile }) => {
      const { data, space } = shown();
      const row = tile === null ? null : (space.tiles.row[tile] ?? null);
      actions.choose(event, row === null ? undefined : data.buffers.name[row]);
    },
    describe: ({ tile }) => (tile === null || !frame ? null : describeTile(shown(), tile, frame)),
  });
}

function climb(ladder: number[], from: number | null, up: boolean): number | null {
  const at = from === null ? -1 : ladder.indexOf(from);
  if (at < 0) return ladder.at(up ? 0 : -1) ?? null;
  return ladder[Math.min(ladder.length - 1, Math.max(0, at + (up ? 1 : -1)))] ?? null;
}

function describeTile({ data, space }: { data: TideData; space: Space }, tile: number, frame: SpaceFrame): PlaceDescription {
  const { name, kind, texts } = tileFacts(data, space, tile);
  const { tiles } = space;
  return {
    x: frame.x((tiles.born[tile]! + tiles.died[tile]!) / 2),
    y: frame.y(tiles.low[tile]!),
    rows: [
      element('div', { class: 'row' }, swatch(data.kinds[tiles.kind[tile]!]!.colour), element('span', {}, kind)),
      element('div', { class: 'node' }, name),
      ...texts.map((text) => element('div', {}, text)),
    ],
    words: [name, kind, ...texts].join(', '),
  };
}
