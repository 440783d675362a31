import { describe, expect, it } from 'vitest';
import { fit, showInside, toScreen, useRoom } from '../src/graph/camera';

const canvas = { width: 800, height: 600 };

describe('a camera', () => {
  it('fits a scene of any size', () => {
    const scene = { width: 3000, height: 120_000 };
    const { x, y, width, height } = toScreen(fit(scene, canvas), { x: 0, y: 0, ...scene });
    expect(Math.min(x, y)).toBeGreaterThanOrEqual(0);
    expect(x + width).toBeLessThanOrEqual(canvas.width);
    expect(y + height).toBeLessThanOrEqual(canvas.height);
  });

  it('leaves no room free beside a scene that is cut off', () => {
    const scene = { width: 2000, height: 1000 };
    expect(useRoom({ scale: 1, left: -1500, top: 50 }, scene, canvas)).toEqual({ scale: 1, left: -1200, top: 0 });
    expect(useRoom({ scale: 1, left: -700, top: -100 }, scene, canvas)).toEqual({ scale: 1, left: -700, top: -100 });
  });

  it('puts a scene that fits in the middle', () => {
    expect(useRoom({ scale: 0.5, left: -300, top: 0 }, { width: 1000, height: 400 }, canvas)).toEqual({ scale: 0.5, left: 150, top: 200 });
  });

  it('shows what is inside a box that was opened', () => {
    const camera = { scale: 1, left: 0, top: 0 };
    // All of it, if it fits.
    expect(showInside(camera, canvas, { x: 700, y: 100, width: 400, height: 300 }, { x: 850, y: 140, width: 90, height: 30 }))
      .toEqual({ scale: 1, left: -340, top: 0 });
    // Otherwise the first row, in the middle if it was out of sight.
    const large = { x: 500, y: 100, width: 2000, height: 9000 };
    expect(showInside(camera, canvas, large, { x: 1450, y: 140, width: 100, height: 30 })).toEqual({ scale: 1, left: -1100, top: 0 });
    expect(showInside(camera, canvas, large, { x: 520, y: 140, width: 1900, height: 30 })).toEqual({ scale: 1, left: -1070, top: 0 });
    expect(showInside(camera, canvas, large, { x: 600, y: 140, width: 100, height: 30 })).toEqual(camera);
  });
});
