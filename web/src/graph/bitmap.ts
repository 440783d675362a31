// The drawn sheet as a bitmap somewhat larger than the window: moving it copies pixels, where drawing thousands of boxes
// would take several frames. What comes into sight is painted in strips beside what is there.
import { element } from '../dom';
import { toScreen, visible, type Camera, type Size } from './camera';
import { paintMarks } from './canvas';
import type { Rectangle } from './geometry';
import type { Mark } from './marks';
import { covers, intersect, missingStrips, outward, reachOut } from './strips';

export interface SheetMarks {
  marks: Mark[];
  /** Nothing is drawn outside of it. */
  bounds: Rectangle;
  background: string;
}

/** How much of the window's width and height is kept on every side of it. */
const margin = 0.25;
// Copies at another scale are blurred; within this factor that does not matter during a movement.
const mostStretch = 2;
const nothing: Rectangle = { x: 0, y: 0, width: 0, height: 0 };

/** All cameras here are in pixels of the device, with whole numbers as `left` and `top`: copies then stay sharp. */
export class SheetBitmap {
  private readonly canvas = element('canvas');
  private readonly context = this.canvas.getContext('2d', { alpha: false });
  /** How the sheet lies on the bitmap; null when nothing of it is there. */
  private camera: Camera | null = null;
  private painted = nothing;
  private window: Size = nothing;

  resize({ width, height }: Size): void {
    this.window = { width, height };
    this.canvas.width = Math.ceil(width * (1 + 2 * margin));
    this.canvas.height = Math.ceil(height * (1 + 2 * margin));
    this.clear();
  }

  /** The drawing is another one. */
  clear(): void {
    this.camera = null;
  }

  /** Puts what `camera` sees into the window; what of it was never painted is painted first. Only `exact` excludes other scales. */
  copyTo(target: CanvasRenderingContext2D, camera: Camera, ratio: number, sheet: SheetMarks, exact: boolean): void {
    const view = intersect(visible(camera, this.window), sheet.bounds);
    if (!view) return;
    const kept = this.makeRoom(camera, view, exact);
    const needed = outward(toScreen(kept, view));
    this.extend(kept, needed, ratio, sheet);
    const factor = camera.scale / kept.scale;
    target.drawImage(this.canvas, needed.x, needed.y, needed.width, needed.height,
      camera.left + (needed.x - kept.left) * factor, camera.top + (needed.y - kept.top) * factor, needed.width * factor, needed.height * factor);
  }

  private get whole(): Rectangle {
    return { x: 0, y: 0, width: this.canvas.width, height: this.canvas.height };
  }

  private makeRoom(camera: Camera, view: Rectangle, exact: boolean): Camera {
    const kept = this.camera;
    if (!kept || !isNear(kept.scale, camera.scale, exact ? 1 : mostStretch)) return this.restart(camera);
    const needed = outward(toScreen(kept, view));
    if (covers(this.whole, needed)) return kept;
    return kept.scale === camera.scale ? this.shift(kept, needed) : this.restart(camera);
  }

  private restart(camera: Camera): Camera {
    this.painted = nothing;
    const left = Math.floor((this.canvas.width - this.window.width) / 2);
    const top = Math.floor((this.canvas.height - this.window.height) / 2);
    return (this.camera = { scale: camera.scale, left: camera.left + left, top: camera.top + top });
  }

  /** What is needed comes to the middle, and what is painted goes with it. */
  private shift(kept: Camera, needed: Rectangle): Camera {
    const right = Math.round((this.canvas.width - needed.width) / 2) - needed.x;
    const down = Math.round((this.canvas.height - needed.height) / 2) - needed.y;
    if (this.context) {
      this.context.globalCompositeOperation = 'copy';
      this.context.drawImage(this.canvas, right, down);
      this.context.globalCompositeOperation = 'source-over';
    }
    const { x, y, width, height } = this.painted;
    this.painted = intersect({ x: x + right, y: y + down, width, height }, this.whole) ?? nothing;
    return (this.camera = { ...kept, left: kept.left + right, top: kept.top + down });
  }

  private extend(kept: Camera, needed: Rectangle, ratio: number, sheet: SheetMarks): void {
    if (covers(this.painted, needed)) return;
    const before = intersect(this.painted, needed) && this.painted;
    const after = before ? reachOut(before, needed, this.whole) : needed;
    for (const strip of before ? missingStrips(before, after) : [after]) this.paint(kept, strip, ratio, sheet);
    this.painted = after;
  }

  private paint(kept: Camera, strip: Rectangle, ratio: number, { marks, background }: SheetMarks): void {
    const { context } = this;
    if (!context) return;
    context.save();
    context.beginPath();
    context.rect(strip.x, strip.y, strip.width, strip.height);
    context.clip();
    context.fillStyle = background;
    context.fillRect(strip.x, strip.y, strip.width, strip.height);
    context.setTransform(kept.scale, 0, 0, kept.scale, kept.left, kept.top);
    const seen = visible({ ...kept, left: kept.left - strip.x, top: kept.top - strip.y }, strip);
    paintMarks(context, marks, seen, kept.scale / ratio);
    context.restore();
  }
}

function isNear(one: number, other: number, most: number): boolean {
  return one <= other * most && other <= one * most;
}
