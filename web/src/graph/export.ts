// Everything that is drawn, as a file.
import { element } from '../dom';
import { paintMarks } from './canvas';
import type { Rectangle } from './geometry';
import type { Stage } from './stage';
import { marksToSvg } from './svg';

// Browsers refuse larger canvases; a larger drawing is made smaller.
const mostPixels = 8192;
const margin = 20;

export function saveSvg(stage: Stage, name: string): void {
  const svg = renderSvg(stage);
  if (svg !== null) save(new Blob([svg], { type: 'image/svg+xml' }), `${name}.svg`);
}

function renderSvg(stage: Stage): string | null {
  const { shown } = stage;
  return shown && marksToSvg(shown.marks, framed(shown.geometry), shown.look.palette.page);
}

export function savePng(stage: Stage, name: string): void {
  const { shown } = stage;
  if (!shown) return;
  const view = framed(shown.geometry);
  const scale = Math.min(2, mostPixels / view.width, mostPixels / view.height);
  const canvas = element('canvas');
  canvas.width = Math.ceil(view.width * scale);
  canvas.height = Math.ceil(view.height * scale);
  const context = canvas.getContext('2d');
  if (!context) return;
  context.fillStyle = shown.look.palette.page;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.setTransform(scale, 0, 0, scale, -view.x * scale, -view.y * scale);
  paintMarks(context, shown.marks, view, Math.max(scale, 1));
  canvas.toBlob((blob) => blob && save(blob, `${name}.png`), 'image/png');
}

function framed({ width, height }: { width: number; height: number }): Rectangle {
  return { x: -margin, y: -margin, width: width + 2 * margin, height: height + 2 * margin };
}

function save(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  element('a', { href: address, download: name.replace(/[^\w.-]+/g, '_') }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
