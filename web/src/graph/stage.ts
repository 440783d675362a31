// The canvas: shows a drawing through a camera, animates from one drawing to the next, and finds what is under the pointer.
import { element } from '../dom';
import { SheetBitmap, type SheetMarks } from './bitmap';
import { bringIntoView, centreOn, fit, inPixels, keepInPlace, readableScale, showInside, toScene, toScreen, useRoom, visible, zoomAt, type Camera, type Size } from './camera';
import { paintMarks } from './canvas';
import { buildMarks, glyphOf, type Look } from './display';
import { blend, boxAt, contains, emptyGeometry, middleOfTop, topRow, type Geometry, type Rectangle } from './geometry';
import { listenForGestures } from './gestures';
import { edgeAt, highlightMarks, type Pointed } from './highlight';
import type { Mark } from './marks';
import { Minimap } from './minimap';
import type { Palette } from './palette';
import type { Box, Scene } from './scene';

interface Drawing {
  scene: Scene;
  geometry: Geometry;
  look: Look;
}

interface StageHandlers {
  choose(box: Box | null): void;
  toggle(box: Box): void;
  completed(): void;
}

const movingTime = 120;
// A movement has ended this long after its last step; then a stretched copy is painted sharp.
const settlingTime = 100;
// How far curves and labels may extend beyond the border of the sheet.
const overhang = 60;
// With more boxes than this a move is a jump: building every step of it would take longer than a frame.
const mostMoving = 200;

export class Stage {
  readonly canvas = element('canvas', { tabindex: '0', class: 'stage', role: 'application', 'data-first': '' });
  camera: Camera = { scale: 1, left: 0, top: 0 };
  private size: Size = { width: 1, height: 1 };
  private drawing: Drawing | null = null;
  private marks: Mark[] = [];
  private selected: string | null = null;
  private pointed: Pointed = { box: null, edge: null };
  private frame = 0;
  private fitted = false;
  /** The selected box was pressed and stays where it is: a second press makes a double click. */
  private held = false;
  private covered = 0;
  /** The drawing was not painted since it changed; moving the camera changes nothing about it. */
  private fresh = false;
  private moving: { from: Geometry; start: number } | null = null;
  private settling = 0;
  private readonly bitmap = new SheetBitmap();
  readonly minimap = new Minimap((x, y) => this.moveTo(centreOn(this.camera.scale, this.open, { x, y, width: 0, height: 0 })));
  private readonly observer: ResizeObserver;

  constructor(private readonly handlers: StageHandlers) {
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.canvas);
    listenForGestures(this.canvas, {
      camera: () => this.camera,
      move: (camera) => this.moveTo(camera),
      point: (x, y) => this.point(x, y),
      leave: () => this.setPointed({ box: null, edge: null }),
      click: (x, y, touch) => this.click(x, y, touch),
      doubleClick: (x, y) => this.doubleClick(x, y),
    });
  }

  /** A new drawing; the box `anchor` stays where it is on the canvas, without one everything is shown. */
  show(drawing: Drawing, anchor: string | null): void {
    const before = this.geometry;
    const held = anchor === null ? null : heldPlaces(before, drawing.geometry, anchor);
    this.replace(drawing);
    this.pointed = { box: null, edge: null };
    if (held) {
      this.camera = keepInPlace(this.camera, held.before, held.after);
      this.moving = canMove(before, drawing.geometry)
        ? { from: shifted(before, held.after.x - held.before.x, held.after.y - held.before.y), start: performance.now() }
        : null;
    } else if (!anchor) this.fit(readableScale);
    this.fitted = held === null && anchor === null;
    this.requestPaint();
  }

  /** The same places in other colours. */
  recolour(look: Look): void {
    if (!this.drawing) return;
    this.replace({ ...this.drawing, look });
    this.requestPaint();
  }

  select(id: string | null): void {
    this.selected = id;
    this.requestPaint();
  }

  /** Into sight; what was not chosen on the canvas itself may move when the details take a part of the canvas. */
  bringIntoView(id: string): void {
    this.held = false;
    const rectangle = this.geometry.boxes.get(id)?.rectangle;
    if (rectangle) this.moveTo(bringIntoView(this.camera, this.open, rectangle));
  }

  /** What an open box holds, or the first row of it, into sight. */
  showInside(id: string): void {
    const found = this.geometry.boxes.get(id);
    const inner = (found?.box.inner?.boxes ?? []).flatMap((box) => this.geometry.boxes.get(box.id)?.rectangle ?? []);
    const row = topRow(inner);
    if (found && row) this.moveTo(showInside(this.camera, this.open, found.rectangle, row));
  }

  /** The height at the bottom that something else covers. */
  cover(height: number): void {
    this.covered = height;
  }

  /** To the middle as far as the rest leaves no room free, as a link to it would be opened. */
  centre(id: string): void {
    const rectangle = this.geometry.boxes.get(id)?.rectangle;
    if (!rectangle) return;
    const camera = centreOn(Math.max(this.camera.scale, readableScale), this.open, rectangle);
    this.moveTo(useRoom(camera, this.geometry, this.open));
  }

  /** Everything, or as much as can be read: then the top, where the graph begins. */
  fit(least?: number): void {
    this.moveTo(fit(this.geometry, this.size, least, middleOfTop(this.geometry)));
    this.fitted = true;
  }

  zoom(factor: number): void {
    this.moveTo(zoomAt(this.camera, this.size.width / 2, this.size.height / 2, factor));
  }

  private get open(): Size {
    return { width: this.size.width, height: Math.max(80, this.size.height - this.covered) };
  }

  get geometry(): Geometry {
    return this.drawing?.geometry ?? emptyGeometry;
  }

  get shown(): { marks: Mark[]; geometry: Geometry; look: Look } | null {
    return this.drawing && { marks: this.marks, geometry: this.drawing.geometry, look: this.drawing.look };
  }

  placeOf(rectangle: Rectangle): Rectangle {
    return toScreen(this.camera, rectangle);
  }

  destroy(): void {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.settling);
    this.canvas.remove();
  }

  private replace(drawing: Drawing): void {
    this.drawing = drawing;
    this.marks = buildMarks(drawing.scene, drawing.geometry, drawing.look);
    this.minimap.replace(drawing.geometry, drawing.look);
    this.bitmap.clear();
    this.fresh = true;
  }

  private moveTo(camera: Camera): void {
    this.camera = camera;
    this.fitted = false;
    clearTimeout(this.settling);
    this.settling = window.setTimeout(() => this.settle(), settlingTime);
    this.requestPaint();
  }

  private settle(): void {
    this.settling = 0;
    // Where strips of a movement meet, letters may be a shade off: what rests is drawn in one.
    this.bitmap.clear();
    this.requestPaint();
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const narrower = width < this.size.width;
    this.size = { width, height };
    this.canvas.width = Math.round(width * devicePixelRatio);
    this.canvas.height = Math.round(height * devicePixelRatio);
    this.bitmap.resize(this.canvas);
    // A selection opens the details beside the canvas: what was selected should neither move nor be hidden by them.
    if (this.fitted && this.selected === null) this.fit(readableScale);
    else if (narrower && this.selected !== null) this.giveWay(this.selected);
    this.paint();
  }

  private giveWay(selected: string): void {
    const { held } = this;
    if (!held) this.moveTo(useRoom(this.camera, this.geometry, this.open));
    this.bringIntoView(selected);
    this.held = held;
  }

  private requestPaint(): void {
    this.frame ||= requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const context = this.canvas.getContext('2d', { alpha: false });
    if (!context || !this.drawing) return;
    const { palette, measure } = this.drawing.look;
    const ratio = this.canvas.width / this.size.width;
    const camera = inPixels(this.camera, ratio);
    const view = visible(camera, this.canvas);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = palette.page;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const glide = this.stepOfGlide();
    if (!glide) this.bitmap.copyTo(context, camera, ratio, this.sheet(palette), !this.settling);
    context.setTransform(camera.scale, 0, 0, camera.scale, camera.left, camera.top);
    paintMarks(context, glide ?? highlightMarks(this.geometry, this.selected, this.pointed, palette, measure), view, this.camera.scale);
    this.minimap.show(this.camera, this.size);
    if (glide) return this.requestPaint();
    if (this.fresh) this.handlers.completed();
    this.fresh = false;
  }

  private sheet({ page }: Palette): SheetMarks {
    const { width, height } = this.geometry;
    return { marks: this.marks, bounds: grown({ x: 0, y: 0, width, height }, overhang), background: page };
  }

  /** What is drawn in this frame of a move; null when there is none. */
  private stepOfGlide(): Mark[] | null {
    if (!this.moving || !this.drawing) return null;
    const share = (performance.now() - this.moving.start) / movingTime;
    if (share >= 1) {
      this.moving = null;
      return null;
    }
    const eased = 1 - (1 - share) ** 3;
    const { scene, look } = this.drawing;
    return buildMarks(scene, blend(this.moving.from, this.geometry, eased), look);
  }

  private point(x: number, y: number): void {
    const at = toScene(this.camera, x, y);
    const box = boxAt(this.geometry, at.x, at.y);
    const edge = box && !box.inner ? null : edgeAt(this.geometry, at.x, at.y, 5 / this.camera.scale);
    this.setPointed({ box: edge ? null : box?.id ?? null, edge });
    this.canvas.style.cursor = box || edge ? 'pointer' : 'grab';
  }

  private setPointed(pointed: Pointed): void {
    if (pointed.box === this.pointed.box && pointed.edge === this.pointed.edge) return;
    this.pointed = pointed;
    this.requestPaint();
  }

  private click(x: number, y: number, touch: boolean): void {
    this.canvas.focus({ preventScroll: true });
    const at = toScene(this.camera, x, y);
    const box = boxAt(this.geometry, at.x, at.y);
    const rectangle = box && this.geometry.boxes.get(box.id)?.rectangle;
    if (box && rectangle && contains(grown(glyphOf(box, rectangle), (touch ? 10 : 3) / this.camera.scale), at.x, at.y)) this.handlers.toggle(box);
    else {
      this.held = true;
      this.handlers.choose(box);
    }
  }

  private doubleClick(x: number, y: number): void {
    const at = toScene(this.camera, x, y);
    const box = boxAt(this.geometry, at.x, at.y);
    const rectangle = box && this.geometry.boxes.get(box.id)?.rectangle;
    // The two clicks on a + or − have each had their effect.
    if (box && rectangle && !contains(grown(glyphOf(box, rectangle), 3), at.x, at.y)) this.handlers.toggle(box);
  }
}

function heldPlaces(before: Geometry, after: Geometry, id: string): { before: Rectangle; after: Rectangle } | null {
  const was = before.boxes.get(id)?.rectangle;
  const is = after.boxes.get(id)?.rectangle;
  return was && is ? { before: was, after: is } : null;
}

function shifted(geometry: Geometry, right: number, down: number): Geometry {
  const boxes: Geometry['boxes'] = new Map();
  for (const [id, { box, rectangle }] of geometry.boxes) {
    boxes.set(id, { box, rectangle: { ...rectangle, x: rectangle.x + right, y: rectangle.y + down } });
  }
  return { ...geometry, boxes };
}

// An opened box appears at once, for it is to be read; when one closes, the others move.
function canMove(before: Geometry, after: Geometry): boolean {
  return after.boxes.size <= mostMoving && [...after.boxes.keys()].every((id) => before.boxes.has(id))
    && !matchMedia('(prefers-reduced-motion: reduce)').matches;
}

function grown({ x, y, width, height }: Rectangle, by: number): Rectangle {
  return { x: x - by, y: y - by, width: width + 2 * by, height: height + 2 * by };
}
