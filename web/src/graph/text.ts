// How wide text is, measured once for each text and font, and text cut to a width.

export const fontFamily = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

export interface Font {
  size: number;
  weight: number;
}

export type Measure = (text: string, font: Font) => number;

export function fontOf({ size, weight }: Font): string {
  return `${weight} ${size}px ${fontFamily}`;
}

export function createMeasure(): Measure {
  const context = document.createElement('canvas').getContext('2d');
  const widths = new Map<string, number>();
  return (text, font) => {
    const key = `${font.weight} ${font.size} ${text}`;
    const known = widths.get(key);
    if (known !== undefined) return known;
    if (!context) return text.length * font.size * 0.55;
    context.font = fontOf(font);
    const width = context.measureText(text).width;
    if (widths.size > 20_000) widths.clear();
    widths.set(key, width);
    return width;
  };
}

/** The text, or its start and end around an ellipsis: names of nodes differ at the end more often than in the middle. */
export function truncate(text: string, width: number, font: Font, measure: Measure): string {
  if (measure(text, font) <= width) return text;
  let low = 1;
  let high = Math.min(text.length, 80);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (measure(shorten(text, middle), font) <= width) low = middle;
    else high = middle - 1;
  }
  return shorten(text, low);
}

function shorten(text: string, kept: number): string {
  const end = Math.floor(kept * (text.includes('/') ? 0.7 : 0.4));
  return `${text.slice(0, kept - end)}…${end ? text.slice(-end) : ''}`;
}
