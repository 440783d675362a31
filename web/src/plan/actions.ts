// The actions of a plan, one by one and by layer.
import { countOf, formatBytes, formatCount } from '../amounts';
import type { Context } from '../context';
import { element } from '../dom';
import { formatTime } from '../tide/format';
import { graphLink } from '../tide/locate';
import { button, card, nameButton } from '../tide/parts';
import { createTable } from '../tide/table';
import { totalOf, type Action, type PlanData, type Total } from './data';

const rowsAtATime = 100;
const fewLayers = 10;

export interface ActionsCard {
  element: HTMLElement;
  show(node: string | null, filter: string): void;
}

interface ActionChoices {
  select(node: string | null): void;
  filter(words: string): void;
}

export function createActions(context: Context, data: PlanData, choices: ActionChoices): ActionsCard {
  let selected: string | null = null;
  const strip = element('div', { class: 'selected', hidden: true });
  const table = createTable<Action>({
    columns: [
      { name: 'what', value: (action) => action.what, cell: (action) => action.what },
      { name: 'layer', value: (action) => action.layer, cell: (action) => action.layer },
      { name: 'op', value: (action) => action.op ?? '', cell: (action) => action.op ?? '' },
      {
        name: 'node',
        value: (action) => action.node,
        // An action without an op is not about a node, for example splitting the batch.
        cell: (action) =>
          action.op === null ? action.node : nameButton(action.node, () => choices.select(action.node)),
      },
      {
        name: 'saves',
        number: true,
        value: (action) => action.saves_bytes,
        cell: (action) => formatBytes(action.saves_bytes),
      },
      {
        name: 'costs',
        number: true,
        value: (action) => action.costs_us,
        cell: (action) => formatTime(action.costs_us),
      },
      { name: 'why', className: 'dim', value: (action) => action.reason, cell: (action) => action.reason },
    ],
    sortedBy: 'saves',
    label: 'What is done',
    placeholder: 'Filter by layer, op or node',
    rowsAtATime,
    rest: (listed, matching, filtered) => describeRest(data, listed, matching, filtered),
    onFilter: choices.filter,
    className: (action) => (action.node === selected ? 'chosen' : ''),
    pinned: (action) => action.node === selected,
  });

  function show(node: string | null, filter: string): void {
    if (node !== selected || strip.hidden !== (node === null)) {
      strip.hidden = node === null;
      const action = data.actions.find((each) => each.node === node);
      if (node !== null) {
        strip.replaceChildren(
          element('div', { class: 'name' }, element('code', {}, node)),
          element('div', { class: 'about' }, action ? describeAction(action) : 'This plan does not change it.'),
          element(
            'div',
            { class: 'buttons' },
            context.standalone ? null : graphLink(context, node, null),
            button('Clear', () => choices.select(null)),
          ),
        );
      }
    }
    selected = node;
    table.show(data.actions, filter);
  }
  return { element: card('What is done', [table.filter], strip, table.element), show };
}

export function describeAction(action: Action): string {
  const gains = `saves ${formatBytes(action.saves_bytes)}, costs ${formatTime(action.costs_us)}`;
  return [action.what, action.layer, action.op, gains, action.reason].filter(Boolean).join(' · ');
}

export function describeRest(data: PlanData, listed: Action[], matching: Action[], filtered: boolean): string {
  if (filtered) {
    const { actions, saves_bytes: saves, costs_us: costs } = totalOf(matching);
    if (!actions) return 'None matches';
    return `${countOf(actions, 'action')} ${actions === 1 ? 'matches' : 'match'}: ${formatBytes(saves)} saved for ${formatTime(costs)}`;
  }
  const more = data.total.actions - listed.length;
  const saves = data.total.saves_bytes - totalOf(listed).saves_bytes;
  return more > 0 ? `and ${formatCount(more)} more that save ${formatBytes(saves)}` : '';
}

/** The savings and costs of each layer, the largest savings first, and their sum. */
export function layersCard(data: PlanData): HTMLElement {
  const most = Math.max(1, ...data.layers.map((layer) => layer.saves_bytes));
  const body = element('tbody');
  const draw = (count: number) => {
    const rest = data.layers.slice(count);
    body.replaceChildren(
      ...data.layers
        .slice(0, count)
        .map((layer) =>
          element(
            'tr',
            {},
            element('td', { title: layer.layer }, layer.layer),
            ...totalCells(layer),
            barCell(layer.saves_bytes / most),
          ),
        ),
    );
    if (rest.length) {
      body.append(
        element(
          'tr',
          {},
          element(
            'td',
            {},
            button(`${formatCount(rest.length)} more`, () => draw(Infinity), { class: 'link' }),
          ),
          ...totalCells(addTotals(rest)),
          element('td'),
        ),
      );
    }
  };
  draw(fewLayers);
  const heads = ['actions', 'saves', 'costs'].map((name) => element('th', { scope: 'col', class: 'number' }, name));
  const table = element(
    'table',
    { 'aria-label': 'By layer' },
    element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, 'layer'), ...heads, element('th'))),
    body,
    element('tfoot', {}, element('tr', {}, element('td', {}, 'total'), ...totalCells(data.total), element('td'))),
  );
  return card(
    'By layer',
    [element('span', { class: 'hint' }, 'Memory that the actions save, and the time that they add')],
    element('div', { class: 'scroll' }, table),
  );
}

function addTotals(totals: Total[]): Total {
  return totals.reduce((one, other) => ({
    actions: one.actions + other.actions,
    saves_bytes: one.saves_bytes + other.saves_bytes,
    costs_us: one.costs_us + other.costs_us,
  }));
}

function totalCells({ actions, saves_bytes: saves, costs_us: costs }: Total): HTMLElement[] {
  return [formatCount(actions), formatBytes(saves), formatTime(costs)].map((text) =>
    element('td', { class: 'number' }, text),
  );
}

function barCell(share: number): HTMLElement {
  const bar = element('div');
  bar.style.width = `${(100 * share).toFixed(1)}%`;
  return element('td', { class: 'share', 'aria-hidden': 'true' }, bar);
}
