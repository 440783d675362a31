// Rectangles of pixels: what of one is missing in another.
import type { Rectangle } from './geometry';

// Painting a strip goes through all marks, so a strip is wider than one frame of a movement needs.
const reach = 64;

export function covers(outer: Rectangle, inner: Rectangle): boolean {
  return outer.x <= inner.x && outer.y <= inner.y && right(outer) >= right(inner) && bottom(outer) >= bottom(inner);
}

/** What two have in common; null when that is nothing. */
export function intersect(one: Rectangle, other: Rectangle): Rectangle | null {
  const found = between(Math.max(one.x, other.x), Math.max(one.y, other.y), Math.min(right(one), right(other)), Math.min(bottom(one), bottom(other)));
  return found.width > 0 && found.height > 0 ? found : null;
}

/** Whole pixels. */
export function outward(rectangle: Rectangle): Rectangle {
  return between(Math.floor(rectangle.x), Math.floor(rectangle.y), Math.ceil(right(rectangle)), Math.ceil(bottom(rectangle)));
}

/** Grown to hold what is needed, and some more on the sides where it grows, within limits. */
export function reachOut(painted: Rectangle, needed: Rectangle, limits: Rectangle): Rectangle {
  return between(
    needed.x < painted.x ? Math.max(limits.x, needed.x - reach) : painted.x,
    needed.y < painted.y ? Math.max(limits.y, needed.y - reach) : painted.y,
    right(needed) > right(painted) ? Math.min(right(limits), right(needed) + reach) : right(painted),
    bottom(needed) > bottom(painted) ? Math.min(bottom(limits), bottom(needed) + reach) : bottom(painted));
}

/** `after`, which holds `before`, without it: above and below over the whole width, then left and right. */
export function missingStrips(before: Rectangle, after: Rectangle): Rectangle[] {
  return [
    between(after.x, after.y, right(after), before.y),
    between(after.x, bottom(before), right(after), bottom(after)),
    between(after.x, before.y, before.x, bottom(before)),
    between(right(before), before.y, right(after), bottom(before)),
  ].filter(({ width, height }) => width > 0 && height > 0);
}

function right({ x, width }: Rectangle): number {
  return x + width;
}

function bottom({ y, height }: Rectangle): number {
  return y + height;
}

function between(left: number, top: number, right: number, bottom: number): Rectangle {
  return { x: left, y: top, width: right - left, height: bottom - top };
}
