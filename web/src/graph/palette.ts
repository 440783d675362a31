// The colours of the drawing; they match the variables of styles/base.css, which a canvas and an SVG file cannot read.
import type { Theme } from '../context';

export interface Palette {
  page: string;
  card: string;
  ink: string;
  muted: string;
  line: string;
  sea: string;
  edge: string;
  frame: [string, string];
  good: string;
  over: string;
  changed: string;
  /** A calm fill and its border for a hue; grey when there is none. */
  tint(hue: number | null): { fill: string; stroke: string };
  /** From little to much. */
  bytes: string[];
  heat: string[];
}

const light: Palette = {
  page: '#f2f7f8', card: '#ffffff', ink: '#10242d', muted: '#5c717b', line: '#c9d7dc', sea: '#0d8f9b', edge: '#8fa6b0',
  frame: ['#f8fbfc', '#eef4f6'], good: '#1f8a50', over: '#d13a40', changed: '#b7791f',
  tint: (hue) => (hue === null
    ? { fill: '#eef2f4', stroke: '#b3c1c8' }
    : { fill: `hsl(${hue} 62% 93%)`, stroke: `hsl(${hue} 42% 62%)` }),
  bytes: ['#f4fafa', '#d6eef0', '#abdde1', '#75c5cc', '#3fa9b3', '#15848f', '#0a5d68'],
  heat: ['#fffbe8', '#fdeeb5', '#fbd57c', '#f6b04f', '#ec8136', '#d65130', '#ac2733'],
};

const dark: Palette = {
  page: '#0a1419', card: '#182b34', ink: '#e6f0f3', muted: '#92a8b2', line: '#2d444f', sea: '#35c3cf', edge: '#55707c',
  frame: ['#0e1b21', '#12222a'], good: '#58c58a', over: '#ff6b70', changed: '#e0ab52',
  tint: (hue) => (hue === null
    ? { fill: '#1b2a31', stroke: '#43565f' }
    : { fill: `hsl(${hue} 34% 19%)`, stroke: `hsl(${hue} 36% 42%)` }),
  bytes: ['#13242b', '#143740', '#155059', '#196d77', '#208d97', '#3fb4bd', '#86dde2'],
  heat: ['#2a2416', '#4a3713', '#714a12', '#9c5a15', '#c86a20', '#e98339', '#ffb066'],
};

export function paletteOf(theme: Theme): Palette {
  return theme === 'dark' ? dark : light;
}

/** Black or white text, whichever reads better on a `#rrggbb` colour. */
export function textOn(colour: string): string {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
  return red * 0.299 + green * 0.587 + blue * 0.114 > 140 ? '#10242d' : '#ffffff';
}
