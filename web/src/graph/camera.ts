// Which part of the scene the canvas shows, and how large.
import type { Rectangle } from './geometry';

/** A point of the scene is at `x * scale + left` from the canvas's left border, in CSS pixels. */
export interface Camera {
  scale: number;
  left: number;
  top: number;
}

export interface Size {
  width: number;
  height: number;
}

// Even 2,000 boxes in one row are in sight at this scale.
const leastScale = 0.001;
const mostScale = 4;
/** Text of boxes can be read from here on; a first view goes no farther out. */
export const readableScale = 0.62;

/** The scene in the middle; when it is large, `least` keeps it legible and shows its top, with `focusX` in the middle. */
export function fit(scene: Size, canvas: Size, least = leastScale, focusX = scene.width / 2): Camera {
  const margin = canvas.width < 500 ? 10 : 28;
  const whole = Math.min((canvas.width - 2 * margin) / Math.max(scene.width, 1), (canvas.height - 2 * margin) / Math.max(scene.height, 1));
  const scale = clamp(Math.max(Math.min(whole, 1.25), least), leastScale, mostScale);
  return {
    scale,
    left: scene.width * scale <= canvas.width
      ? (canvas.width - scene.width * scale) / 2
      : clamp(canvas.width / 2 - focusX * scale, canvas.width - margin - scene.width * scale, margin),
    top: Math.max(margin, (canvas.height - scene.height * scale) / 2),
  };
}

export function zoomAt(camera: Camera, x: number, y: number, factor: number): Camera {
  const scale = clamp(camera.scale * factor, leastScale, mostScale);
  const ratio = scale / camera.scale;
  return { scale, left: x - (x - camera.left) * ratio, top: y - (y - camera.top) * ratio };
}

export function pan(camera: Camera, right: number, down: number): Camera {
  return { ...camera, left: camera.left + right, top: camera.top + down };
}

export function visible(camera: Camera, canvas: Size): Rectangle {
  return {
    x: -camera.left / camera.scale, y: -camera.top / camera.scale,
    width: canvas.width / camera.scale, height: canvas.height / camera.scale,
  };
}

/** For a canvas with `ratio` pixels to a CSS pixel; at whole pixels, so that a copy of what was drawn is not blurred. */
export function inPixels({ scale, left, top }: Camera, ratio: number): Camera {
  return { scale: scale * ratio, left: Math.round(left * ratio), top: Math.round(top * ratio) };
}

export function toScreen(camera: Camera, { x, y, width, height }: Rectangle): Rectangle {
  return {
    x: x * camera.scale + camera.left, y: y * camera.scale + camera.top,
    width: width * camera.scale, height: height * camera.scale,
  };
}

export function toScene(camera: Camera, x: number, y: number): { x: number; y: number } {
  return { x: (x - camera.left) / camera.scale, y: (y - camera.top) / camera.scale };
}

/** Moved so that what was at `before` on the scene is at `after`, at the same place on the canvas. */
export function keepInPlace(camera: Camera, before: Rectangle, after: Rectangle): Camera {
  return pan(camera, (before.x - after.x) * camera.scale, (before.y - after.y) * camera.scale);
}

/** Moved as little as needed for the rectangle to be in sight, and closer when it could not be read. */
export function bringIntoView(camera: Camera, canvas: Size, rectangle: Rectangle): Camera {
  const near = camera.scale < readableScale * 0.8;
  const scale = near ? 0.9 : camera.scale;
  if (near) return centreOn(scale, canvas, rectangle);
  const place = toScreen(camera, rectangle);
  return pan(camera, slide(place.x, place.width, canvas.width), slide(place.y, place.height, canvas.height));
}

/** Moved so that what fits is whole in sight, and of what does not, `start` is in the middle if it was out of sight. */
export function showInside(camera: Camera, canvas: Size, whole: Rectangle, start: Rectangle): Camera {
  const place = toScreen(camera, whole);
  if (place.width <= canvas.width && place.height <= canvas.height) return bringIntoView(camera, canvas, whole);
  const { x, y, width, height } = toScreen(camera, start);
  const overlap = Math.min(x + width, canvas.width) - Math.max(x, 0);
  return pan(camera, overlap >= Math.min(width, canvas.width) / 2 ? 0 : canvas.width / 2 - (x + width / 2), slide(y, height, canvas.height));
}

/** Moved so that no room beside the scene stays free while some of it is cut off; what fits is in the middle. */
export function useRoom(camera: Camera, scene: Size, canvas: Size): Camera {
  return {
    ...camera,
    left: startIn(canvas.width, scene.width * camera.scale, camera.left),
    top: startIn(canvas.height, scene.height * camera.scale, camera.top),
  };
}

function startIn(room: number, length: number, start: number): number {
  return length <= room ? (room - length) / 2 : clamp(start, room - length, 0);
}

/** The rectangle in the middle; of one that is higher than the canvas, its top. */
export function centreOn(scale: number, canvas: Size, rectangle: Rectangle): Camera {
  return {
    scale,
    left: canvas.width / 2 - (rectangle.x + rectangle.width / 2) * scale,
    top: canvas.height / 2 - (rectangle.y + Math.min(rectangle.height, 0.8 * canvas.height / scale) / 2) * scale,
  };
}

function slide(start: number, length: number, room: number): number {
  const margin = Math.min(40, room / 8);
  if (start >= margin && start + length <= room - margin) return 0;
  if (length > room - 2 * margin) return start > margin || start + length < room - margin ? margin - start : 0;
  return start < margin ? margin - start : room - margin - (start + length);
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}
