// The coordinates of a chart of bytes, and the lines and texts around it.
import { formatBytes } from '../amounts';
import type { ChartSize } from './chart';
import { byteTicks } from './data';
import { fontSize, letterWidth, lineAcross, type Label, type ChartPalette, type Shape } from './picture';

export const margin = { left: 76, right: 12, top: 26, bottom: 26 };

/** The area of a chart without its margins, which hold the texts around it. */
export interface PlotArea extends ChartSize {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export function plotArea(size: ChartSize, { left, right, top, bottom }: typeof margin): PlotArea {
  return { ...size, left, right: size.width - right, top, bottom: size.height - bottom };
}

/** Maps a share of the step and an amount of bytes to coordinates in the chart. */
export interface Frame extends PlotArea {
  x(share: number): number;
  y(bytes: number): number;
  shareAt(x: number): number;
}

export function frameOf(size: ChartSize, topBytes: number): Frame {
  const area = plotArea(size, margin);
  const { left, right, top, bottom } = area;
  return {
    ...area,
    x: (share) => left + share * (right - left),
    y: (bytes) => bottom - (bytes / topBytes) * (bottom - top),
    shareAt: (x) => Math.min(1, Math.max(0, (x - left) / Math.max(right - left, 1))),
  };
}

/** Grid lines with their amounts, and labels for both ends of the step. */
export function drawAxes(frame: Frame, topBytes: number, end: string, palette: ChartPalette): Shape[] {
  const grid = byteTicks(topBytes, 6).flatMap((bytes): Shape[] => [
    { kind: 'line', points: lineAcross(frame.left, frame.right, frame.y(bytes)), stroke: palette.line, name: 'grid' },
    {
      kind: 'label',
      x: frame.left - 10,
      y: frame.y(bytes) + 4,
      text: bytes ? formatBytes(bytes) : '0',
      fill: palette.muted,
      anchor: 'end',
    },
  ]);
  return [...grid, ...drawEnds(frame, end, palette)];
}

export function drawEnds(
  frame: { left: number; right: number; bottom: number },
  end: string,
  palette: ChartPalette,
): Shape[] {
  const y = frame.bottom + 19;
  return [
    { kind: 'label', x: frame.left, y, text: 'start of the step', fill: palette.muted },
    { kind: 'label', x: frame.right, y, text: end, fill: palette.muted, anchor: 'end' },
  ];
}

export interface Level {
  bytes: number;
  text: string;
  name: 'safe' | 'budget';
}

/** Lines at the safe bound and the budget, with labels that overlap neither each other nor `taken`. */
export function drawLevels(frame: Frame, levels: Level[], taken: Label[], palette: ChartPalette): Shape[] {
  const labels: Label[] = [...taken];
  const lines = levels.map((level): Shape => {
    const budget = level.name === 'budget';
    const label = placeLabel(candidatesOf(frame, level, palette), labels);
    // The label of the budget is always drawn, even if it overlaps another.
    if (label ?? budget) labels.push(label ?? candidatesOf(frame, level, palette)[0]!);
    return {
      kind: 'line',
      points: lineAcross(frame.left, frame.right, frame.y(level.bytes)),
      stroke: budget ? palette.over : palette.muted,
      width: budget ? 2 : 1,
      ...(budget ? {} : { dash: [2, 4] }),
      name: level.name,
    };
  });
  return [...lines, ...labels.slice(taken.length)];
}

// At the start or the end of the line, above or below it. Little memory is in use at the start, so that is tried first.
function candidatesOf(frame: Frame, level: Level, palette: ChartPalette): Label[] {
  const y = frame.y(level.bytes);
  const budget = level.name === 'budget';
  const fill = budget ? palette.over : palette.muted;
  return [y - 6, y + 15].flatMap((height): Label[] =>
    (['start', 'end'] as const).map((anchor) => ({
      kind: 'label',
      x: anchor === 'start' ? frame.left + 6 : frame.right - 4,
      y: height,
      text: level.text,
      fill,
      anchor,
      bold: budget,
      halo: palette.card,
      name: `${level.name}-label`,
    })),
  );
}

/** The first of the labels that overlaps none of `taken`. */
export function placeLabel(candidates: Label[], taken: Label[]): Label | null {
  return candidates.find((label) => !taken.some((other) => overlap(extentOf(label), extentOf(other)))) ?? null;
}

type Extent = [left: number, right: number, top: number, bottom: number];

function extentOf({ x, y, text, anchor }: Label): Extent {
  const width = letterWidth * text.length;
  const left = anchor === 'end' ? x - width : anchor === 'middle' ? x - width / 2 : x;
  return [left, left + width, y - fontSize, y + 4];
}

function overlap(one: Extent, other: Extent): boolean {
  return one[0] < other[1] && other[0] < one[1] && one[2] < other[3] && other[2] < one[3];
}
