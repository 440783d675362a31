// A picture on a canvas, for the screen and for a PNG.
import { escapeUnseen } from '../names';
import { fontFamily, fontSize, haloWidth, type Picture, type Points, type Shape } from './picture';

/** Draw at `scale` pixels for each unit of the picture, and make the canvas as large as that needs. */
export function paint(canvas: HTMLCanvasElement, picture: Picture, scale: number): void {
  canvas.width = Math.max(1, Math.round(picture.width * scale));
  canvas.height = Math.max(1, Math.round(picture.height * scale));
  const context = canvas.getContext('2d');
  if (!context) return;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.lineJoin = 'round';
  context.fillStyle = picture.background;
  context.fillRect(0, 0, picture.width, picture.height);
  for (const shape of picture.shapes) drawShape(context, shape);
}

function drawShape(context: CanvasRenderingContext2D, shape: Shape): void {
  context.globalAlpha = 'opacity' in shape ? (shape.opacity ?? 1) : 1;
  switch (shape.kind) {
    case 'polygon':
      context.fillStyle = shape.fill;
      trace(context, shape.points);
      context.fill();
      break;
    case 'line':
      context.strokeStyle = shape.stroke;
      context.lineWidth = shape.width ?? 1;
      context.setLineDash([...(shape.dash ?? [])]);
      trace(context, shape.points);
      context.stroke();
      context.setLineDash([]);
      break;
    case 'boxes':
      drawBoxes(context, shape);
      break;
    case 'dot':
      context.beginPath();
      context.arc(shape.x, shape.y, shape.radius, 0, 2 * Math.PI);
      context.fillStyle = shape.fill;
      context.fill();
      if (shape.edge) stroke(context, shape.edge, 2);
      break;
    case 'label':
      context.font = `${shape.bold ? 600 : 400} ${fontSize}px ${fontFamily}`;
      context.textAlign = shape.anchor === 'middle' ? 'center' : (shape.anchor ?? 'start');
      if (shape.halo) {
        context.strokeStyle = shape.halo;
        context.lineWidth = haloWidth;
        context.strokeText(escapeUnseen(shape.text), shape.x, shape.y);
      }
      context.fillStyle = shape.fill;
      context.fillText(escapeUnseen(shape.text), shape.x, shape.y);
  }
  context.globalAlpha = 1;
}

function drawBoxes(context: CanvasRenderingContext2D, shape: Shape & { kind: 'boxes' }): void {
  context.beginPath();
  for (let index = 0; index + 3 < shape.boxes.length; index += 4) {
    context.rect(shape.boxes[index]!, shape.boxes[index + 1]!, shape.boxes[index + 2]!, shape.boxes[index + 3]!);
  }
  context.fillStyle = shape.fill;
  context.fill();
  if (shape.edge) stroke(context, shape.edge, shape.edgeWidth ?? 1);
}

function stroke(context: CanvasRenderingContext2D, colour: string, width: number): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.stroke();
}

function trace(context: CanvasRenderingContext2D, points: Points): void {
  context.beginPath();
  for (let index = 0; index + 1 < points.length; index += 2) context.lineTo(points[index]!, points[index + 1]!);
}
