// The difference of two tides: both curves, and which layers, kinds and tensors make the peak higher or lower.
import { formatBytes, formatChange, formatCount } from '../amounts';
import { element, swatch } from '../dom';
import { createCurves, curvesCard } from '../plan/curves';
import { answerGroup, card, provenanceCard } from '../tide/parts';
import type { AmountChange, DifferenceData, TensorChange } from './data';
import { reportMount } from './mount';
import { plainTable } from './tables';

export const mountDifference = reportMount<DifferenceData>('difference', (data) => {
  const curves = createCurves(data.title, data.curves);
  return {
    title: data.title,
    charts: [curves],
    cards: [
      answerGroup(data.answers),
      curvesCard(data.title, data.curves.peaks, data.curves, curves),
      changesCard('By layer', 'layer', data.layers, data.peak),
      changesCard('By kind', 'kind', data.kinds, data.peak),
      ...data.tensors.map(tensorsCard),
      provenanceCard(data.method, data.notes),
    ],
  };
});

const growthOf = ({ before_bytes: before, after_bytes: after }: AmountChange) => after - before;

function changesCard(title: string, what: string, changes: AmountChange[], total: AmountChange): HTMLElement | null {
  if (!changes.length) return null;
  const extent = growthExtent(changes.map(growthOf));
  const foot = element(
    'tr',
    {},
    element('td', {}, total.name),
    ...[formatBytes(total.before_bytes), formatBytes(total.after_bytes), formatChange(growthOf(total))].map((text) =>
      element('td', { class: 'number' }, text),
    ),
    element('td'),
  );
  return card(
    title,
    [],
    plainTable<AmountChange>(
      title,
      [
        {
          name: what,
          className: 'name',
          cell: ({ name, colour }) => element('span', {}, colour === null ? null : swatch(colour), name),
        },
        { name: 'before', number: true, cell: (change) => formatBytes(change.before_bytes) },
        { name: 'after', number: true, cell: (change) => formatBytes(change.after_bytes) },
        { name: 'growth', number: true, cell: (change) => formatChange(growthOf(change)) },
        { name: '', className: 'growth', cell: (change) => growthBar(growthOf(change), extent) },
      ],
      changes,
      foot,
    ),
  );
}

/** The least and the most that the bars show; zero is always among them. */
function growthExtent(amounts: number[]): [least: number, most: number] {
  return [Math.min(0, ...amounts), Math.max(0, ...amounts)];
}

/** A bar to the right of zero for growth, to the left for shrinking. */
function growthBar(amount: number, [least, most]: [number, number]): HTMLElement {
  const percent = (value: number) => `${(100 * value) / Math.max(most - least, 1)}%`;
  const bar = element('div', { class: amount > 0 ? 'grown' : 'shrunk' });
  bar.style.left = percent(Math.min(0, amount) - least);
  bar.style.width = percent(Math.abs(amount));
  const zero = element('div', { class: 'zero' });
  zero.style.left = percent(-least);
  return element('div', { class: 'growth-bar', 'aria-hidden': 'true' }, bar, zero);
}

function tensorsCard({ layer, tensors, rest }: DifferenceData['tensors'][number]): HTMLElement {
  const table = plainTable<TensorChange>(
    layer,
    [
      { name: 'op', cell: ({ sign, op, colour }) => element('span', {}, swatch(colour), `${sign} ${op}`) },
      { name: 'tensor', className: 'dim name', cell: ({ name }) => name },
      { name: 'type', cell: ({ type }) => type },
      { name: 'growth', number: true, cell: ({ growth_bytes: growth }) => formatChange(growth) },
      { name: 'line', className: 'dim', cell: ({ source }) => source ?? '' },
    ],
    tensors,
  );
  const more = `and ${formatCount(rest.count)} more, ${formatChange(rest.growth_bytes)}`;
  return card(layer, [], table, rest.count ? element('p', { class: 'more' }, more) : null);
}
