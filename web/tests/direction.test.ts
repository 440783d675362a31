import { describe, expect, it } from 'vitest';
import { nearestInDirection, type Arrow } from '../src/graph/direction';

const at = (name: string, x: number, y: number) => ({ name, rectangle: { x, y, width: 100, height: 40 } });

describe('an arrow key', () => {
  const centre = at('centre', 500, 500);
  const others = [at('above', 510, 400), at('below', 480, 620), at('farBelow', 500, 900), at('left', 300, 505), at('right', 700, 490)];

  it.each<[Arrow, string]>([['ArrowUp', 'above'], ['ArrowDown', 'below'], ['ArrowLeft', 'left'], ['ArrowRight', 'right']])(
    '%s goes to the box %s', (arrow, name) => {
      expect(nearestInDirection(centre.rectangle, others, arrow)?.name).toBe(name);
    });

  it('prefers what is straight ahead to what is nearer but aside', () => {
    const found = nearestInDirection(centre.rectangle, [at('aside', 800, 560), at('ahead', 500, 700)], 'ArrowDown');
    expect(found?.name).toBe('ahead');
  });

  it('goes nowhere when nothing is there', () => {
    expect(nearestInDirection(centre.rectangle, [at('below', 500, 700)], 'ArrowUp')).toBeNull();
  });
});
