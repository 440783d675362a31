// What all charts share: a surface that follows the size of the window, marks over it, a tooltip, pointer and keyboard.
import { escapeUnseen } from '../names';
import { element } from '../dom';
import { paint } from './canvas';
import { paletteOf, type ChartPalette, type Picture, type Shape } from './picture';
import { svgElements } from './svg';

export interface ChartSize {
  width: number;
  height: number;
}

/** What is shown about a place: in a tooltip beside it, and to screen readers. */
export interface PlaceDescription {
  x: number;
  /** The tooltip is below this; without it, at the top of the chart. */
  y?: number;
  rows: (Node | string)[];
  words: string;
}

export type Key = 'ArrowLeft' | 'ArrowRight' | 'ArrowUp' | 'ArrowDown' | 'Home' | 'End';

/** A chart whose places are of the type `Place`, for example a moment or a buffer. */
interface ChartParts<Place> {
  className: string;
  surface: 'svg' | 'canvas';
  label(): string;
  paint(size: ChartSize, palette: ChartPalette): Picture;
  /** What is drawn over the picture for the place under the pointer. */
  marks(pointed: Place | null, palette: ChartPalette): Shape[];
  /** Null for a place without a description. */
  describe(place: Place): PlaceDescription | null;
  at(x: number, y: number): Place | null;
  /** The place that a key leads to; `many` asks for a larger step. Null leaves the key to the page. */
  move(from: Place | null, key: Key, many: boolean): Place | null;
  choose?(place: Place): void;
}

export interface Chart {
  element: HTMLElement;
  redraw(): void;
  /** Draw the marks again, after something outside of the chart changed them. */
  mark(): void;
  /** The chart with its marks as one picture. */
  picture(): Picture;
  destroy(): void;
}

const keys: ReadonlySet<string> = new Set(['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End']);

export function createChart<Place>(parts: ChartParts<Place>): Chart {
  const surface =
    parts.surface === 'svg'
      ? document.createElementNS('http://www.w3.org/2000/svg', 'svg')
      : element('canvas', { class: 'ground' });
  const over = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const tooltip = element('div', { class: 'tooltip', hidden: true });
  const spoken = element('p', { class: 'unseen', 'aria-live': 'polite' });
  const chart = element(
    'div',
    { class: `chart ${parts.className}`, tabindex: '0', role: 'application', 'data-first': '' },
    surface,
    over,
    tooltip,
  );
  for (const layer of [surface, over]) layer.setAttribute('aria-hidden', 'true');
  surface.setAttribute('class', 'ground');
  over.setAttribute('class', 'marks');
  let pointed: Place | null = null;
  let drawn: Picture | null = null;

  function redraw(): void {
    const size = { width: chart.clientWidth, height: chart.clientHeight };
    if (!size.width || !size.height) return;
    drawn = parts.paint(size, paletteOf(chart));
    chart.setAttribute('aria-label', parts.label());
    const box = `0 0 ${size.width} ${size.height}`;
    over.setAttribute('viewBox', box);
    if (surface instanceof HTMLCanvasElement) paint(surface, drawn, window.devicePixelRatio || 1);
    else {
      surface.setAttribute('viewBox', box);
      surface.replaceChildren(...svgElements(drawn.shapes));
    }
    point(pointed);
  }

  function mark(): void {
    if (drawn) over.replaceChildren(...svgElements(parts.marks(pointed, paletteOf(chart))));
  }

  function point(place: Place | null): void {
    pointed = place;
    mark();
    const description = place === null || !drawn ? null : parts.describe(place);
    tooltip.hidden = description === null;
    if (description && drawn) showTooltip(description, drawn);
  }

  function showTooltip({ x, y, rows }: PlaceDescription, { width, height }: ChartSize): void {
    tooltip.replaceChildren(...rows);
    const beside = x + 14 + tooltip.offsetWidth > width ? x - 14 - tooltip.offsetWidth : x + 14;
    tooltip.style.left = `${Math.max(0, Math.min(beside, width - tooltip.offsetWidth))}px`;
    const below = y === undefined ? 8 : y + 12 + tooltip.offsetHeight > height ? y - 12 - tooltip.offsetHeight : y + 12;
    tooltip.style.top = `${Math.max(0, below)}px`;
  }

  const placeOf = (event: MouseEvent) => {
    const box = chart.getBoundingClientRect();
    return parts.at(event.clientX - box.left, event.clientY - box.top);
  };
  chart.addEventListener('pointermove', (event) => point(placeOf(event)));
  chart.addEventListener('pointerleave', () => point(null));
  chart.addEventListener('blur', () => point(null));
  chart.addEventListener('click', (event) => {
    const place = placeOf(event);
    if (place !== null) parts.choose?.(place);
  });
  chart.addEventListener('keydown', (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === 'Escape' && pointed !== null) {
      point(null);
      spoken.textContent = '';
    } else if ((event.key === 'Enter' || event.key === ' ') && pointed !== null && parts.choose) {
      parts.choose(pointed);
    } else if (keys.has(event.key)) {
      const place = parts.move(pointed, event.key as Key, event.shiftKey);
      if (place === null) return;
      point(place);
      spoken.textContent = escapeUnseen(parts.describe(place)?.words ?? '');
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const watch = new ResizeObserver(redraw);
  watch.observe(chart);
  return {
    element: element('div', { class: 'chart-frame' }, chart, spoken),
    redraw,
    mark,
    picture: () => {
      if (!drawn) redraw();
      const palette = paletteOf(chart);
      const { width, height, background, title, shapes } = drawn ?? parts.paint({ width: 960, height: 400 }, palette);
      return { width, height, background, title, shapes: [...shapes, ...parts.marks(null, palette)] };
    },
    destroy: () => watch.disconnect(),
  };
}
