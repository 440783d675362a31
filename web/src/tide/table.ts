// A table that can be sorted and filtered, and shows a limited number of rows at a time.
import { formatCount } from '../amounts';
import { element } from '../dom';
import { button } from './parts';

export interface Column<Row> {
  name: string;
  /** The value to sort by; a text is also searched by the filter. */
  value(row: Row): string | number;
  cell(row: Row): Node | string;
  number?: boolean;
  className?: string;
}

interface TableParts<Row> {
  columns: Column<Row>[];
  /** The column that the table is sorted by at first, in descending order. */
  sortedBy: string;
  label: string;
  placeholder: string;
  rowsAtATime: number;
  /** The text below about rows that are not shown; `listed` are the shown ones. */
  rest(listed: Row[], matching: Row[], filtered: boolean): string;
  onFilter?(words: string): void;
  className?(row: Row): string;
  /** Rows that are always listed. */
  pinned?(row: Row): boolean;
}

interface Table<Row> {
  element: HTMLElement;
  filter: HTMLInputElement;
  show(rows: Row[], words: string): void;
}

export function createTable<Row>(parts: TableParts<Row>): Table<Row> {
  const state = {
    rows: [] as Row[],
    listed: [] as Row[],
    key: parts.sortedBy,
    descending: true,
    shown: parts.rowsAtATime,
    words: '',
  };
  const heads = parts.columns.map((column) => {
    const head = element(
      'th',
      { scope: 'col', role: 'columnheader', class: classOf(column) },
      button(column.name, () => sortBy(column)),
    );
    return { column, head };
  });
  const body = element('tbody', { role: 'rowgroup' });
  const below = element('span');
  const more = button('', () => {
    state.shown += parts.rowsAtATime;
    draw();
  });
  const filter = element('input', {
    type: 'search',
    class: 'filter',
    placeholder: parts.placeholder,
    'aria-label': parts.placeholder,
  });
  filter.addEventListener('input', () => {
    filterBy(filter.value);
    draw();
    parts.onFilter?.(filter.value.trim());
  });

  function sortBy(column: Column<Row>): void {
    state.descending = column.name === state.key ? !state.descending : column.number === true;
    state.key = column.name;
    draw();
  }

  function filterBy(words: string): void {
    if (filter.value.trim() !== words.trim()) filter.value = words;
    if (state.words.trim() !== words.trim()) state.shown = parts.rowsAtATime;
    state.words = words;
  }

  // Rows are created again; the one that has the focus keeps it.
  function replaceRows(listed: Row[]): void {
    const focused = [...body.rows].findIndex((each) => each.contains(document.activeElement));
    const row = state.listed[focused];
    body.replaceChildren(...listed.map((each) => rowOf(parts, each)));
    state.listed = listed;
    if (row !== undefined) body.rows[listed.indexOf(row)]?.querySelector('button')?.focus({ preventScroll: true });
  }

  function draw(): void {
    const column = parts.columns.find((each) => each.name === state.key) ?? parts.columns[0]!;
    const matching = sortRows(matchRows(state.rows, parts.columns, state.words), column.value, state.descending);
    const listed = firstRows(matching, state.shown, parts.pinned);
    replaceRows(listed);
    for (const each of heads) {
      each.head.setAttribute(
        'aria-sort',
        each.column !== column ? 'none' : state.descending ? 'descending' : 'ascending',
      );
    }
    below.textContent = parts.rest(listed, matching, state.words.trim() !== '');
    const hidden = matching.length - listed.length;
    more.hidden = hidden === 0;
    more.textContent = `Show ${formatCount(Math.min(hidden, parts.rowsAtATime))} more`;
  }

  // A narrow window shows rows as cards; explicit roles keep the table a table for screen readers.
  const table = element(
    'table',
    { class: 'listing', role: 'table', 'aria-label': parts.label },
    element('thead', { role: 'rowgroup' }, element('tr', { role: 'row' }, ...heads.map((each) => each.head))),
    body,
  );
  return {
    element: element(
      'div',
      {},
      element('div', { class: 'scroll tall', tabindex: '0', role: 'group', 'aria-label': parts.label }, table),
      element('p', { class: 'more' }, below, more),
    ),
    filter,
    show: (rows, words) => {
      state.rows = rows;
      filterBy(words);
      draw();
    },
  };
}

function classOf<Row>({ name, number, className }: Column<Row>): string {
  return [`column-${name}`, number ? 'number' : '', className ?? ''].join(' ').trim();
}

function rowOf<Row>(parts: TableParts<Row>, row: Row): HTMLElement {
  return element(
    'tr',
    { role: 'row', class: parts.className?.(row) ?? '' },
    ...parts.columns.map((column) => cellOf(column, row)),
  );
}

function cellOf<Row>(column: Column<Row>, row: Row): HTMLElement {
  const value = column.value(row);
  const attributes = { role: 'cell', class: classOf(column) };
  return element('td', typeof value === 'string' ? { ...attributes, title: value } : attributes, column.cell(row));
}

/** The first `count` rows; pinned rows from further down come before them. */
export function firstRows<Row>(rows: Row[], count: number, pinned: (row: Row) => boolean = () => false): Row[] {
  return [...rows.slice(count).filter(pinned), ...rows.slice(0, count)];
}

/** The rows whose texts contain all of the words. */
export function matchRows<Row>(rows: Row[], columns: Pick<Column<Row>, 'value'>[], words: string): Row[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return rows;
  return rows.filter((row) => {
    const text = columns
      .map((column) => column.value(row))
      .filter((value) => typeof value === 'string')
      .join(' ')
      .toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

/** A sorted copy; equal rows keep their order. */
export function sortRows<Row>(rows: Row[], value: (row: Row) => string | number, descending: boolean): Row[] {
  const sign = descending ? -1 : 1;
  const keyed = rows.map((row) => [value(row), row] as const);
  return keyed.sort(([one], [other]) => sign * (one < other ? -1 : one > other ? 1 : 0)).map(([, row]) => row);
}
