// The tensors that are alive at a moment, and the selected one.
import { countOf, formatBytes, formatCount } from '../amounts';
import type { Context } from '../context';
import { element, swatch } from '../dom';
import { aliveAt, isAlive, shareOf, sum, textOf, type TextColumn, type TideData } from './data';
import { graphLink } from './locate';
import { button, card, nameButton } from './parts';
import { createTable, type Column } from './table';

const rowsAtATime = 100;

interface TensorsCard {
  element: HTMLElement;
  show(data: TideData, point: number, filter: string, tensor: string | null, rows: number[]): void;
}

interface TensorActions {
  context: Context;
  tide(): number;
  select(tensor: string | null): void;
  choose(event: number): void;
  filter(words: string): void;
}

export function createTensors(actions: TensorActions): TensorsCard {
  let data: TideData | null = null;
  let point = 0;
  let selected: readonly number[] = [];
  let described: string | null = null;
  const strip = element('div', { class: 'selected', hidden: true });
  const table = createTable<number>({
    columns: columnsOf(
      () => data!,
      (row) => actions.select(data!.buffers.name[row]!),
    ),
    sortedBy: 'bytes',
    label: 'Tensors that are alive',
    placeholder: 'Filter by layer, op, tensor or line',
    rowsAtATime,
    rest: (listed, matching, filtered) => describeRest(data!, point, listed, matching, filtered),
    onFilter: (words) => actions.filter(words),
    className: (row) => (selected.includes(row) ? 'chosen' : ''),
    pinned: (row) => selected.includes(row),
  });

  function show(next: TideData, at: number, filter: string, tensor: string | null, rows: number[]): void {
    [data, point, selected] = [next, at, rows];
    table.show(aliveAt(next.buffers, next.curve.event[at]!), filter);
    strip.hidden = tensor === null;
    if (tensor !== null) describeSelected(next, tensor, rows);
    if (tensor !== described) scrollToChosen();
    described = tensor;
  }

  // Only the table scrolls, not the page.
  function scrollToChosen(): void {
    const row = table.element.querySelector<HTMLElement>('tr.chosen');
    const list = row?.closest('.scroll');
    if (row && list)
      list.scrollTop += row.getBoundingClientRect().top - list.getBoundingClientRect().top - list.clientHeight / 2;
  }

  function describeSelected(next: TideData, tensor: string, rows: number[]): void {
    // The buttons are kept while the moment changes: they may show the result of a search in graphs.
    const alive = rows.some((row) => isAlive(next.buffers, row, next.curve.event[point]!));
    const about = rows.length ? describeTensor(next, rows) : describeMissing(next);
    const born = rows.length ? next.buffers.born[rows[0]!]! : null;
    const parts = [
      element(
        'div',
        { class: 'name' },
        rows.length ? swatch(next.kinds[next.buffers.kind[rows[0]!]!]!.colour) : null,
        element('code', {}, tensor),
      ),
      element('div', { class: 'about' }, alive || !rows.length ? about : `${about} · not alive at this moment`),
    ];
    const buttons =
      tensor === described && strip.lastElementChild
        ? strip.lastElementChild
        : element(
            'div',
            { class: 'buttons' },
            actions.context.standalone ? null : graphLink(actions.context, tensor, actions.tide()),
            born === null ? null : button('Go to its allocation', () => actions.choose(born)),
            button('Clear', () => actions.select(null)),
          );
    strip.replaceChildren(...parts, buttons);
  }
  return { element: card('Tensors alive here', [table.filter], strip, table.element), show };
}

function columnsOf(data: () => TideData, select: (row: number) => void): Column<number>[] {
  const text = (name: string, column: TextColumn, className = ''): Column<number> => ({
    name,
    className,
    value: (row) => textOf(data().buffers, column, row) ?? '',
    cell: (row) => textOf(data().buffers, column, row) ?? '',
  });
  const kindOf = (row: number) => data().kinds[data().buffers.kind[row]!]!;
  const layerOf = (row: number) => textOf(data().buffers, 'layer', row) ?? `(${kindOf(row).name})`;
  return [
    { name: 'layer', value: layerOf, cell: (row) => element('span', {}, swatch(kindOf(row).colour), layerOf(row)) },
    text('op', 'op'),
    {
      name: 'tensor',
      value: (row) => data().buffers.name[row]!,
      cell: (row) => nameButton(data().buffers.name[row]!, () => select(row)),
    },
    text('shape', 'shape'),
    {
      name: 'bytes',
      number: true,
      value: (row) => data().buffers.bytes[row]!,
      cell: (row) => formatBytes(data().buffers.bytes[row]!),
    },
    text('line', 'source', 'dim'),
  ];
}

function describeMissing({ buffers }: TideData): string {
  if (buffers.count === buffers.total) return 'It is not among the buffers of this tide.';
  return `It is not among the ${formatCount(buffers.count)} largest of the ${formatCount(buffers.total)} buffers of this tide.`;
}

/** The number and bytes of live buffers that are not listed; the page does not have all small buffers. */
export function describeRest(
  data: TideData,
  point: number,
  listed: number[],
  matching: number[],
  filtered: boolean,
): string {
  const held = sum(listed.map((row) => data.buffers.bytes[row]!));
  if (filtered) {
    const all = sum(matching.map((row) => data.buffers.bytes[row]!));
    return matching.length
      ? `${countOf(matching.length, 'tensor')} ${matching.length === 1 ? 'matches' : 'match'}, ${formatBytes(all)}`
      : 'None matches';
  }
  const more = data.curve.alive[point]! - listed.length;
  return more > 0
    ? `and ${formatCount(more)} more that hold ${formatBytes(Math.max(data.curve.bytes[point]! - held, 0))}`
    : '';
}

export function describeTensor(data: TideData, rows: number[]): string {
  const { buffers, curve, kinds } = data;
  const row = rows[0]!;
  const percent = (event: number) => `${Math.round(100 * Math.min(1, shareOf(curve, event)))}%`;
  const [born, died] = [buffers.born[row]!, buffers.died[row]!];
  const events = `alive from event ${formatCount(born)} to ${formatCount(died)}`;
  const life = `${events}, ${percent(born)} to ${percent(died)} of the step`;
  const parts = [
    textOf(buffers, 'layer', row),
    textOf(buffers, 'op', row),
    textOf(buffers, 'shape', row),
    kinds[buffers.kind[row]!]!.name,
    formatBytes(buffers.bytes[row]!),
    life,
    rows.length > 1 ? `the largest of ${rows.length} buffers` : null,
    textOf(buffers, 'source', row),
  ];
  return parts.filter((part) => part !== null).join(' · ');
}
