// What the views of reports share: loading the data, and drawing again when the theme changes.
import type { Mount } from '../context';
import { element } from '../dom';
import { errorCard, isAbort } from '../notice';
import type { ReportView } from '../route';
import type { Chart } from '../tide/chart';

/** The cards of a report from top to bottom, and the charts in them. */
interface ReportSheet {
  title: string;
  cards: (HTMLElement | null)[];
  charts: Chart[];
}

export function reportMount<Data>(view: ReportView, build: (data: Data) => ReportSheet): Mount {
  return (container, context) => {
    const root = element('div', { class: `memory report-view ${view}-view` });
    container.replaceChildren(root);
    let id: number | null = null;
    let charts: Chart[] = [];
    let theme = context.theme();
    let loading = new AbortController();

    async function load(next: number): Promise<void> {
      loading.abort();
      loading = new AbortController();
      id = next;
      try {
        const sheet = build(await context.api.report<Data>(view, next, loading.signal));
        charts.forEach((chart) => chart.destroy());
        charts = sheet.charts;
        const heading = element('div', { class: 'top' }, element('h1', {}, sheet.title));
        root.replaceChildren(element('div', { class: 'sheet' }, heading, ...sheet.cards));
      } catch (problem) {
        if (!isAbort(problem)) root.replaceChildren(errorCard(problem, () => void load(next)));
      }
    }

    return {
      update(route) {
        if (route.view !== view) return;
        if (route.id !== id) void load(route.id);
        else if (theme !== context.theme()) charts.forEach((chart) => chart.redraw());
        theme = context.theme();
      },
      destroy() {
        loading.abort();
        charts.forEach((chart) => chart.destroy());
        root.remove();
      },
    };
  };
}
