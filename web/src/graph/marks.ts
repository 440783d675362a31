// The display list: what is drawn, as data. The canvas and the SVG file are two ways to put it down.
import type { Rectangle } from './geometry';
import type { Font } from './text';

export interface RectangleMark extends Rectangle {
  type: 'rectangle';
  radius: number;
  fill: string | null;
  stroke: string | null;
  lineWidth: number;
  /** Below this zoom it is not drawn. */
  leastScale?: number;
}

export interface CurveMark {
  type: 'curve';
  /** A start and cubic curves of six numbers each. */
  route: number[];
  bounds: Rectangle;
  stroke: string;
  lineWidth: number;
  dashed: boolean;
  arrow: boolean;
  opacity: number;
}

export interface TextMark {
  type: 'text';
  x: number;
  y: number;
  text: string;
  font: Font;
  fill: string;
  align: 'start' | 'middle' | 'end';
  /** About how wide it is, to leave it out when it is not in sight. */
  width: number;
  /** Below this zoom it is not drawn. */
  leastScale: number;
  /** When zoomed out it is drawn larger, as far as this width allows, so that it stays legible. */
  room?: number;
}

export type Mark = RectangleMark | CurveMark | TextMark;

export function boundsOfRoute(route: number[]): Rectangle {
  let left = Infinity;
  let top = Infinity;
  let right = -Infinity;
  let bottom = -Infinity;
  for (let place = 0; place < route.length; place += 2) {
    const x = route[place] ?? 0;
    const y = route[place + 1] ?? 0;
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

export function overlap(one: Rectangle, other: Rectangle): boolean {
  return one.x <= other.x + other.width && other.x <= one.x + one.width
    && one.y <= other.y + other.height && other.y <= one.y + one.height;
}

/** The tip of an arrow at the end of a route: three points. */
export function arrowTip(route: number[], lineWidth: number): [number, number, number, number, number, number] {
  const [fromX = 0, fromY = 0, x = 0, y = 0] = route.slice(-4);
  const angle = Math.atan2(y - fromY, x - fromX);
  const length = 5 + lineWidth * 1.4;
  const side = (turn: number) => [x - length * Math.cos(angle + turn), y - length * Math.sin(angle + turn)] as const;
  return [x, y, ...side(0.42), ...side(-0.42)];
}
