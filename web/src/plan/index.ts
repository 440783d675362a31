// The view of a plan: before and after, what other budgets cost, the actions, and how to use it.
import { formatBytes } from '../amounts';
import type { Context, Mount, View } from '../context';
import { element } from '../dom';
import { errorCard, isAbort } from '../notice';
import type { Route } from '../route';
import type { Chart } from '../tide/chart';
import { answerGroup, card, provenanceCard } from '../tide/parts';
import { saveButtons } from '../tide/save';
import { createActions, layersCard, type ActionsCard } from './actions';
import { createCurves, curvesCard } from './curves';
import type { PlanData } from './data';
import { createFrontier, frontierTable, rowsOf } from './frontier';
import { usageCard } from './usage';

const frontierRows = 10;

export const mount: Mount = (container, context) => createView(container, context);

function createView(container: HTMLElement, context: Context): View {
  const root = element('div', { class: 'memory plan-view' });
  container.replaceChildren(root);
  let id: number | null = null;
  let options: Record<string, string> = {};
  let theme = context.theme();
  let sheet: PlanSheet | null = null;
  let loading = new AbortController();

  const go = (changes: Record<string, string>, replace = false) =>
    context.navigate({ view: 'plan', id: id!, options: withoutEmpty({ ...options, ...changes }) }, { replace });

  async function load(next: number): Promise<void> {
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    id = next;
    sheet?.destroy();
    sheet = null;
    root.setAttribute('aria-busy', 'true');
    root.replaceChildren(element('p', { class: 'hint loading', role: 'status' }, 'Reading the plan …'));
    try {
      const data = await context.api.report<PlanData>('plan', next, signal);
      sheet = createSheet(context, data, {
        select: (node) => go({ node: node ?? '' }),
        filter: (filter) => go({ filter }, true),
      });
      root.replaceChildren(sheet.element);
      show();
    } catch (problem) {
      if (!isAbort(problem)) root.replaceChildren(errorCard(problem, () => void load(next)));
    }
    if (!signal.aborted) root.removeAttribute('aria-busy');
  }

  function show(): void {
    sheet?.actions?.show(options['node'] || null, options['filter'] ?? '');
    if (theme !== context.theme()) sheet?.redraw();
    theme = context.theme();
  }

  return {
    update(route: Route) {
      if (route.view !== 'plan') return;
      options = route.options;
      if (route.id !== id) void load(route.id);
      else show();
    },
    destroy() {
      loading.abort();
      sheet?.destroy();
      root.remove();
    },
  };
}

function withoutEmpty(options: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== ''));
}

interface PlanSheet {
  element: HTMLElement;
  actions: ActionsCard | null;
  redraw(): void;
  destroy(): void;
}

function createSheet(
  context: Context,
  data: PlanData,
  choices: { select(node: string | null): void; filter(words: string): void },
): PlanSheet {
  const curves = createCurves(data.title, data.curves);
  const frontier = data.frontier ? createFrontier(data.frontier, data.budget_bytes, data.title) : null;
  const actions = data.actions.length ? createActions(context, data, choices) : null;
  const charts = [curves, ...(frontier ? [frontier] : [])];
  const parts = [
    element(
      'div',
      { class: 'top' },
      element(
        'h1',
        {},
        data.title,
        ' ',
        element('span', { class: 'chip' }, `plan for ${formatBytes(data.budget_bytes)}`),
      ),
    ),
    element('p', { class: 'summary' }, data.summary),
    answerGroup(data.answers),
    curvesCard(data.title, data.summary, data.curves, curves),
    frontier ? frontierCard(data, frontier) : null,
    usageCard(data),
    data.layers.length ? layersCard(data) : null,
    actions?.element ?? null,
    provenanceCard(data.method, data.notes),
  ];
  return {
    element: element('div', { class: 'sheet' }, ...parts),
    actions,
    redraw: () => charts.forEach((chart) => chart.redraw()),
    destroy: () => charts.forEach((chart) => chart.destroy()),
  };
}

function frontierCard(data: PlanData, chart: Chart): HTMLElement {
  const caption = () => ({
    title: `${data.title} · what other budgets cost`,
    file: `${data.title}-frontier`,
    legend: [],
  });
  return card(
    'What other budgets cost',
    [
      element('span', { class: 'hint' }, 'Estimates, except for the plan itself. Point, or use ← →, to read a budget'),
      saveButtons(chart, caption),
    ],
    element(
      'div',
      { class: 'split' },
      chart.element,
      element('div', { class: 'scroll' }, frontierTable(rowsOf(data.frontier!.points, frontierRows))),
    ),
  );
}
