// The whole drawing, small, in a corner: where the window is in it. A press or a drag moves the window there.
import { element } from '../dom';
import { visible, type Camera, type Size } from './camera';
import type { Geometry } from './geometry';
import type { Look } from './display';
import { covers } from './strips';

const widest = 190;
const highest = 140;
const smallest = 28;

export class Minimap {
  readonly canvas = element('canvas', { class: 'minimap', hidden: true, 'aria-hidden': 'true' });
  /** The boxes, painted once for each drawing. */
  private readonly boxes = element('canvas');
  private drawing: { geometry: Geometry; look: Look } | null = null;
  private painted = false;
  private scale = 1;

  constructor(go: (x: number, y: number) => void) {
    const move = (event: PointerEvent) => {
      const { left, top } = this.canvas.getBoundingClientRect();
      go((event.clientX - left) / this.scale, (event.clientY - top) / this.scale);
    };
    this.canvas.addEventListener('pointerdown', (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    this.canvas.addEventListener('pointermove', (event) => {
      if (this.canvas.hasPointerCapture(event.pointerId)) move(event);
    });
  }

  replace(geometry: Geometry, look: Look): void {
    this.drawing = { geometry, look };
    this.painted = false;
  }

  /** Shown while some of the drawing is out of sight. */
  show(camera: Camera, window: Size): void {
    const { drawing } = this;
    const view = visible(camera, window);
    const hidden = !drawing || !drawing.geometry.boxes.size || covers(view, { x: 0, y: 0, width: drawing.geometry.width, height: drawing.geometry.height });
    if (hidden !== this.canvas.hidden) this.canvas.hidden = hidden;
    if (hidden || !drawing) return;
    if (!this.painted) this.paintBoxes(drawing.geometry, drawing.look);
    const context = this.canvas.getContext('2d');
    if (!context) return;
    const ratio = devicePixelRatio;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.boxes, 0, 0);
    context.setTransform(this.scale * ratio, 0, 0, this.scale * ratio, 0, 0);
    context.strokeStyle = drawing.look.palette.sea;
    context.lineWidth = 2 / this.scale;
    context.strokeRect(view.x, view.y, view.width, view.height);
  }

  private paintBoxes(geometry: Geometry, { palette, colouring }: Look): void {
    this.painted = true;
    this.scale = Math.min(widest / geometry.width, highest / geometry.height);
    const ratio = devicePixelRatio;
    const size = { width: Math.max(smallest, geometry.width * this.scale), height: Math.max(smallest, geometry.height * this.scale) };
    for (const canvas of [this.canvas, this.boxes]) {
      canvas.width = Math.round(size.width * ratio);
      canvas.height = Math.round(size.height * ratio);
    }
    this.canvas.style.width = `${size.width}px`;
    this.canvas.style.height = `${size.height}px`;
    const context = this.boxes.getContext('2d');
    if (!context) return;
    context.fillStyle = palette.page;
    context.fillRect(0, 0, this.boxes.width, this.boxes.height);
    context.setTransform(this.scale * ratio, 0, 0, this.scale * ratio, 0, 0);
    const least = 1.2 / this.scale;
    for (const { box, rectangle: { x, y, width, height } } of geometry.boxes.values()) {
      context.fillStyle = box.inner ? palette.line : colouring.paint(box.item).stroke;
      context.globalAlpha = box.inner ? 0.35 : 1;
      context.fillRect(x, y, Math.max(width, least), Math.max(height, least));
    }
    context.globalAlpha = 1;
  }
}
