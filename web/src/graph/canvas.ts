// The display list on a canvas; what is out of sight or too small to read is left out.
import type { Rectangle } from './geometry';
import { arrowTip, overlap, type CurveMark, type Mark, type RectangleMark, type TextMark } from './marks';
import { fontOf, type Font } from './text';

// In CSS pixels.
const legible = 10;
const tiny = 4;
const leastSide = 1.5;
const alignments = { start: 'left', middle: 'center', end: 'right' } as const;

/** Paints in the coordinates of the marks: the caller has set the transform that shows `view` at `scale`. */
export function paintMarks(context: CanvasRenderingContext2D, marks: Mark[], view: Rectangle, scale: number): void {
  let font: Font | null = null;
  for (const mark of marks) {
    if (mark.type === 'rectangle') {
      if (overlap(mark, view)) paintRectangle(context, mark, scale);
    } else if (mark.type === 'curve') {
      if (overlap(mark.bounds, view)) paintCurve(context, mark, scale);
    } else if (mark.room !== undefined && mark.font.size * scale < legible) {
      if (isTextInView(mark, view)) paintEnlarged(context, mark, mark.room, scale);
    } else if (scale >= mark.leastScale && isTextInView(mark, view)) {
      // Setting a font is slow even when it is the one already set.
      if (mark.font !== font) context.font = fontOf(mark.font);
      font = mark.font;
      paintText(context, mark);
    }
  }
}

// Names of open scopes give orientation when the boxes in them are too small to read.
function paintEnlarged(context: CanvasRenderingContext2D, mark: TextMark, room: number, scale: number): void {
  const factor = Math.min(legible / (mark.font.size * scale), room / Math.max(mark.width, 1));
  if (mark.font.size * scale * factor < 6) return;
  context.save();
  context.translate(mark.x, mark.y);
  context.scale(factor, factor);
  context.font = fontOf(mark.font);
  context.textAlign = alignments[mark.align];
  context.fillStyle = mark.fill;
  context.fillText(mark.text, 0, 0);
  context.restore();
}

function isTextInView({ x, y, width, font }: TextMark, view: Rectangle): boolean {
  return x + width >= view.x && x - width <= view.x + view.width && y + font.size >= view.y && y - font.size <= view.y + view.height;
}

function paintRectangle(context: CanvasRenderingContext2D, mark: RectangleMark, scale: number): void {
  const { x, y, width, height, radius } = mark;
  if (scale < (mark.leastScale ?? 0)) return;
  if (Math.min(width, height) * scale < tiny) return paintTiny(context, mark, scale);
  context.beginPath();
  // Round corners of a pixel or two cost time and are not seen.
  if (radius * scale < 2) context.rect(x, y, width, height);
  else context.roundRect(x, y, width, height, radius);
  if (mark.fill) {
    context.fillStyle = mark.fill;
    context.fill();
  }
  if (mark.stroke && (scale > 0.12 || width * scale > 40)) {
    context.strokeStyle = mark.stroke;
    context.lineWidth = mark.lineWidth;
    context.stroke();
  }
}

// In the colour of its border, because fills are too pale to tell from the page, and large enough to be seen at all.
function paintTiny(context: CanvasRenderingContext2D, { x, y, width, height, fill, stroke }: RectangleMark, scale: number): void {
  context.fillStyle = stroke ?? fill ?? '';
  context.fillRect(x, y, Math.max(width, leastSide / scale), Math.max(height, leastSide / scale));
}

function paintCurve(context: CanvasRenderingContext2D, mark: CurveMark, scale: number): void {
  const { route, bounds } = mark;
  if (Math.max(bounds.width, bounds.height) * scale < leastSide) return;
  context.globalAlpha = mark.opacity;
  context.strokeStyle = mark.stroke;
  context.lineWidth = Math.max(mark.lineWidth, 0.6 / scale);
  if (mark.dashed) context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(route[0] ?? 0, route[1] ?? 0);
  for (let at = 2; at + 5 < route.length; at += 6) {
    context.bezierCurveTo(route[at] ?? 0, route[at + 1] ?? 0, route[at + 2] ?? 0, route[at + 3] ?? 0, route[at + 4] ?? 0, route[at + 5] ?? 0);
  }
  context.stroke();
  if (mark.dashed) context.setLineDash([]);
  if (mark.arrow && scale > 0.3) paintTip(context, mark);
  context.globalAlpha = 1;
}

function paintTip(context: CanvasRenderingContext2D, mark: CurveMark): void {
  const [x, y, leftX, leftY, rightX, rightY] = arrowTip(mark.route, mark.lineWidth);
  context.fillStyle = mark.stroke;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(leftX, leftY);
  context.lineTo(rightX, rightY);
  context.fill();
}

function paintText(context: CanvasRenderingContext2D, mark: TextMark): void {
  context.textAlign = alignments[mark.align];
  context.fillStyle = mark.fill;
  context.fillText(mark.text, mark.x, mark.y);
}
