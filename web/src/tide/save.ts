// A chart as a file: the same shapes as on the screen, with a title above and the legend below.
import { formatBytes } from '../amounts';
import { element } from '../dom';
import { paint } from './canvas';
import type { Chart } from './chart';
import type { Overlay } from './curve';
import type { TideData } from './data';
import { button } from './parts';
import { letterWidth, paletteOf, type ChartPalette, type Picture, type Shape } from './picture';
import { svgText } from './svg';

export interface CaptionEntry {
  text: string;
  colour: string;
  dash?: readonly number[] | null;
  /** Drawn as a line, not as an area. */
  line?: boolean;
}

interface Caption {
  title: string;
  file: string;
  legend: CaptionEntry[];
}

const above = 44;
const perLine = 22;

/** Two buttons that save what a chart shows. */
export function saveButtons(chart: Chart, caption: () => Caption): HTMLElement {
  const whole = () => captioned(chart.picture(), caption(), paletteOf(chart.element));
  const savePng = () => {
    const canvas = element('canvas');
    paint(canvas, whole(), 2);
    canvas.toBlob((blob) => blob && download(blob, `${fileName(caption().file)}.png`), 'image/png');
  };
  const saveSvg = () =>
    download(new Blob([svgText(whole())], { type: 'image/svg+xml' }), `${fileName(caption().file)}.svg`);
  return element(
    'span',
    { class: 'save', role: 'group', 'aria-label': 'Save this picture' },
    button('PNG', savePng, { title: 'Save as PNG' }),
    button('SVG', saveSvg, { title: 'Save as SVG' }),
  );
}

export function captioned(picture: Picture, { title, legend }: Caption, palette: ChartPalette): Picture {
  const { shapes, height } = drawLegend(legend, picture.width, above + picture.height + 20, palette);
  const heading: Shape = { kind: 'label', x: 16, y: 28, text: title, fill: palette.ink, bold: true };
  return {
    ...picture,
    height: above + picture.height + height + 12,
    shapes: [heading, ...picture.shapes.map((shape) => moveDown(shape, above)), ...shapes],
  };
}

function drawLegend(
  legend: CaptionEntry[],
  width: number,
  start: number,
  palette: ChartPalette,
): { shapes: Shape[]; height: number } {
  const shapes: Shape[] = [];
  let [x, y] = [16, start];
  for (const { text, colour, line, dash } of legend) {
    const needed = 26 + letterWidth * text.length;
    if (x > 16 && x + needed > width - 16) [x, y] = [16, y + perLine];
    shapes.push(
      line
        ? { kind: 'line', points: [x, y - 4, x + 18, y - 4], stroke: colour, width: 2, ...(dash ? { dash } : {}) }
        : { kind: 'boxes', boxes: [x + 4, y - 9, 10, 10], fill: colour },
    );
    shapes.push({ kind: 'label', x: x + 24, y, text, fill: palette.muted });
    x += needed + 10;
  }
  return { shapes, height: legend.length ? y - start + perLine : 0 };
}

function moveDown(shape: Shape, by: number): Shape {
  switch (shape.kind) {
    case 'polygon':
    case 'line':
      return { ...shape, points: shape.points.map((value, index) => (index % 2 ? value + by : value)) };
    case 'boxes':
      return { ...shape, boxes: shape.boxes.map((value, index) => (index % 4 === 1 ? value + by : value)) };
    default:
      return { ...shape, y: shape.y + by };
  }
}

/** The kinds of memory in use, then the other curves with their peaks. */
export function legendOf(data: TideData, overlays: Overlay[]): CaptionEntry[] {
  const kinds = data.kinds.filter((_, row) => data.curve.strata[row]!.some((bytes) => bytes > 0));
  return [
    ...kinds.map(({ name, colour }) => ({ text: name, colour })),
    ...overlays.map(({ label, colour, dash, peakBytes }) => ({
      text: `${label}: peak ${formatBytes(peakBytes)}, ${describeGap(peakBytes, data.peak_bytes)}`,
      colour,
      dash,
      line: true,
    })),
  ];
}

function describeGap(peak: number, own: number): string {
  const gap = own ? peak / own - 1 : 0;
  return Math.abs(gap) < 0.0005 ? 'the same' : `${(100 * Math.abs(gap)).toFixed(1)}% ${gap > 0 ? 'above' : 'below'}`;
}

/** A title as the name of a file. */
export function fileName(title: string): string {
  return (
    title
      .replace(/[^\p{L}\p{N}._-]+/gu, '-')
      .replace(/^[-.]+|[-.]+$/g, '')
      .slice(0, 80) || 'lowtide'
  );
}

function download(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  element('a', { href: address, download: name }).click();
  // The browser may read it later.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
