// A picture as a list of shapes, from which the screen, a PNG and an SVG file are drawn alike.

/** Flat lists of coordinates: x, y, x, y, ... */
export type Points = number[];

export interface Polygon {
  kind: 'polygon';
  points: Points;
  fill: string;
  opacity?: number;
  name?: string;
}

export interface Line {
  kind: 'line';
  points: Points;
  stroke: string;
  width?: number;
  dash?: readonly number[];
  opacity?: number;
  name?: string;
}

/** Boxes of one look: x, y, width, height, x, y, ... */
interface Boxes {
  kind: 'boxes';
  boxes: number[];
  fill: string;
  opacity?: number;
  edge?: string;
  edgeWidth?: number;
  name?: string;
}

interface Dot {
  kind: 'dot';
  x: number;
  y: number;
  radius: number;
  fill: string;
  edge?: string;
  name?: string;
}

export interface Label {
  kind: 'label';
  x: number;
  y: number;
  text: string;
  fill: string;
  anchor?: 'start' | 'middle' | 'end';
  bold?: boolean;
  /** The colour of an outline that keeps the text readable over other shapes. */
  halo?: string;
  name?: string;
}

export type Shape = Polygon | Line | Boxes | Dot | Label;

export interface Picture {
  width: number;
  height: number;
  background: string;
  /** The text for screen readers. */
  title: string;
  shapes: Shape[];
}

export const fontSize = 12;
export const fontFamily = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
/** The approximate width of a letter; text is not measured. */
export const letterWidth = 7;
/** The width of the outline of a text. */
export const haloWidth = 4;

/** The colours of the page, light or dark. */
export interface ChartPalette {
  card: string;
  ink: string;
  muted: string;
  line: string;
  soft: string;
  sea: string;
  over: string;
}

export function paletteOf(element: Element): ChartPalette {
  const style = getComputedStyle(element);
  const read = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    card: read('card'),
    ink: read('ink'),
    muted: read('muted'),
    line: read('line'),
    soft: read('soft'),
    sea: read('sea'),
    over: read('over'),
  };
}

export function lineAcross(left: number, right: number, y: number): Points {
  return [left, y, right, y];
}

export function lineUpright(x: number, top: number, bottom: number): Points {
  return [x, top, x, bottom];
}
