// Which box an arrow key means.
import type { Rectangle } from './geometry';

export type Arrow = 'ArrowUp' | 'ArrowDown' | 'ArrowLeft' | 'ArrowRight';

/** The nearest of `others` in that direction; what lies off to the side counts as farther than it is. */
export function nearestInDirection<Other extends { rectangle: Rectangle }>(
  from: Rectangle, others: Iterable<Other>, arrow: Arrow,
): Other | null {
  let best: Other | null = null;
  let least = Infinity;
  for (const other of others) {
    const distance = distanceAlong(from, other.rectangle, arrow);
    if (distance < least) {
      least = distance;
      best = other;
    }
  }
  return best;
}

function distanceAlong(from: Rectangle, to: Rectangle, arrow: Arrow): number {
  const right = centre(to.x, to.width) - centre(from.x, from.width);
  const down = centre(to.y, to.height) - centre(from.y, from.height);
  const vertical = arrow === 'ArrowUp' || arrow === 'ArrowDown';
  const sign = arrow === 'ArrowDown' || arrow === 'ArrowRight' ? 1 : -1;
  const along = sign * (vertical ? down : right);
  const aside = Math.abs(vertical ? right : down);
  // Straight ahead comes before what is nearer but more to the side than ahead.
  return along > 1 && aside <= 4 * along ? along + 2 * aside : Infinity;
}

function centre(start: number, length: number): number {
  return start + length / 2;
}
