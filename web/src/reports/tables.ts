// Plain tables for reports: few rows, no sorting.
import { element } from '../dom';

interface PlainColumn<Row> {
  name: string;
  cell(row: Row): Node | string;
  number?: boolean;
  className?: string;
}

export function plainTable<Row>(
  label: string,
  columns: PlainColumn<Row>[],
  rows: readonly Row[],
  foot: HTMLElement | null = null,
): HTMLElement {
  const classOf = ({ number, className }: PlainColumn<Row>) => [number ? 'number' : '', className ?? ''].join(' ').trim();
  const heads = columns.map((column) => element('th', { scope: 'col', class: classOf(column) }, column.name));
  const body = rows.map((row) =>
    element(
      'tr',
      {},
      ...columns.map((column) => {
        const content = column.cell(row);
        const title = typeof content === 'string' ? { title: content } : {};
        return element('td', { class: classOf(column), ...title }, content);
      }),
    ),
  );
  const table = element(
    'table',
    { 'aria-label': label },
    element('thead', {}, element('tr', {}, ...heads)),
    element('tbody', {}, ...body),
    foot && element('tfoot', {}, foot),
  );
  return element('div', { class: 'scroll' }, table);
}
