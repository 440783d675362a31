// Why memory ran out: for each shortage the cause, what to do, and which buffers held the memory.
import { formatBytes, formatCount } from '../amounts';
import { element, swatch } from '../dom';
import type { Chart } from '../tide/chart';
import { createCurveChart, type Shown } from '../tide/charts';
import type { Share, TideData } from '../tide/data';
import { createMoment } from '../tide/moment';
import { card, facts, shareBars } from '../tide/parts';
import { legendOf, saveButtons } from '../tide/save';
import type { HolderData, NamedBytes, ShortageData, ShortagesData } from './data';
import { reportMount } from './mount';
import { plainTable } from './tables';

export const mountShortages = reportMount<ShortagesData>('shortage', ({ title, shortages }) => {
  const curves = shortages.map(({ tide }) => (tide === null ? null : curveCards(tide)));
  return {
    title,
    charts: curves.flatMap((curve) => (curve === null ? [] : [curve.chart])),
    cards: shortages.flatMap((shortage, index) => [
      causeCard(shortage, index + 1, shortages.length),
      adviceCard(shortage),
      sharesCard(shortage),
      holdersCard(shortage),
      ...(curves[index]?.cards ?? []),
    ]),
  };
});

function causeCard({ heading, cause, facts: known, room }: ShortageData, number: number, count: number): HTMLElement {
  const title = count === 1 ? heading : `${number} of ${count} · ${heading}`;
  return element(
    'section',
    { class: 'card cause', 'aria-label': title },
    element('p', { class: 'hint' }, title),
    element('h2', {}, cause),
    facts(known),
    ...(room.length ? roomBar(room) : []),
  );
}

function roomBar(parts: NamedBytes[]): HTMLElement[] {
  const total = parts.reduce((sum, part) => sum + part.bytes, 0);
  const pieces = parts.map(({ name, bytes, colour }) => {
    const piece = element('div', { title: name });
    piece.style.backgroundColor = colour;
    piece.style.width = `${(100 * bytes) / total}%`;
    return piece;
  });
  const legend = parts
    .filter(({ bytes }) => bytes > 0)
    .map(({ name, bytes, colour }) => element('span', {}, swatch(colour), `${name} ${formatBytes(bytes)}`));
  return [
    element('div', { class: 'room', 'aria-hidden': 'true' }, ...pieces),
    element('div', { class: 'key' }, ...legend),
  ];
}

export function adviceCard({ advice }: { advice: string[] }): HTMLElement | null {
  return advice.length
    ? card('What to do', [], element('ol', {}, ...advice.map((line) => element('li', {}, line))))
    : null;
}

function sharesCard({ kinds, layers }: ShortageData): HTMLElement | null {
  if (!kinds.length) return null;
  const shares = (parts: { name: string; bytes: number; colour?: string }[]): Share[] =>
    parts.map(({ name, bytes, colour }) => ({ label: name, bytes, parts: [[colour ?? 'var(--sea)', bytes]] }));
  const columns = [
    element('div', {}, element('h3', {}, 'By kind'), ...shareBars(shares(kinds))),
    ...(layers.length ? [element('div', {}, element('h3', {}, 'By layer'), ...shareBars(shares(layers)))] : []),
  ];
  return card('Memory held', [], element('div', { class: 'columns' }, ...columns));
}

function holdersCard({ holders, rest }: ShortageData): HTMLElement | null {
  if (!holders.length) return null;
  const title = 'Buffers that held the memory';
  const table = plainTable<HolderData>(
    title,
    [
      { name: 'held', number: true, cell: ({ bytes }) => formatBytes(bytes) },
      { name: 'blocks', number: true, cell: ({ count }) => formatCount(count) },
      { name: 'each', number: true, cell: ({ bytes, count }) => formatBytes(Math.floor(bytes / count)) },
      {
        name: 'by',
        className: 'name',
        cell: ({ owner, colour }) => element('span', { title: owner }, swatch(colour), owner),
      },
      { name: 'shape', cell: ({ shape }) => shape },
      { name: 'line', className: 'dim', cell: ({ source }) => source },
    ],
    holders,
  );
  const more = `and ${formatCount(rest.count)} more blocks that hold ${formatBytes(rest.bytes)}`;
  return card(title, [], table, rest.count ? element('p', { class: 'more' }, more) : null);
}

/** The step up to the moment in which memory ran out. */
function curveCards(data: TideData): { chart: Chart; cards: HTMLElement[] } {
  const peak = data.curve.event.indexOf(data.peak_event);
  const shown: Shown = { data, point: peak, overlays: [], budget: null, rows: [] };
  const choose = (point: number) => {
    shown.point = point;
    chart.mark();
    moment.show(data, point);
  };
  const moment = createMoment(() => choose(peak));
  const chart = createCurveChart(() => shown, { choose: (event) => choose(data.curve.event.indexOf(event)) });
  moment.show(data, peak);
  const title = 'Memory in use until it ran out';
  const legend = legendOf(data, []);
  const caption = () => ({ title: `${data.title} · ${title}`, file: `${data.title}-out-of-memory`, legend });
  return {
    chart,
    cards: [
      card(
        title,
        [
          element('span', { class: 'hint' }, 'Point, or use ← →, to read a moment; click or Enter chooses it'),
          saveButtons(chart, caption),
        ],
        chart.element,
        element('div', { class: 'key' }, ...legend.map(({ text, colour }) => element('span', {}, swatch(colour), text))),
      ),
      moment.element,
    ],
  };
}
