// What the views of reports share: loading the data, and drawing again when the theme changes.
import type { Mount } from '../context';
import { element } from '../dom';
import { sleep } from '../graph/progress';
import { errorCard, isAbort } from '../notice';
import type { ReportView } from '../route';
import type { Chart } from '../tide/chart';

/** The cards of a report from top to bottom, and the charts in them. */
interface ReportSheet {
  title: string;
  cards: (HTMLElement | null)[];
  charts: Chart[];
  /** What it shows is still changing. */
  changing?: boolean;
}

const changeTime = 3000;

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
      const { signal } = loading;
      id = next;
      try {
        let sheet = build(await context.api.report<Data>(view, next, signal));
        show(sheet);
        while (sheet.changing && !context.standalone) {
          await sleep(changeTime, signal);
          // What the user has selected would be lost.
          if (root.contains(getSelection()?.anchorNode ?? null) && !getSelection()?.isCollapsed) continue;
          const data = await context.api.report<Data>(view, next, signal).catch(keepOnError);
          if (data) show((sheet = build(data)));
        }
      } catch (problem) {
        if (!isAbort(problem)) root.replaceChildren(errorCard(problem, () => void load(next)));
      }
    }

    function show(sheet: ReportSheet): void {
      const focused = charts.findIndex((chart) => chart.element.contains(document.activeElement));
      const scrolled = [...root.querySelectorAll('.scroll')].map(({ scrollTop }) => scrollTop);
      charts.forEach((chart) => chart.destroy());
      charts = sheet.charts;
      const heading = element('div', { class: 'top' }, element('h1', {}, sheet.title));
      root.replaceChildren(element('div', { class: 'sheet' }, heading, ...sheet.cards));
      root.querySelectorAll('.scroll').forEach((part, index) => (part.scrollTop = scrolled[index] ?? 0));
      charts[focused]?.element.querySelector<HTMLElement>('[tabindex]')?.focus({ preventScroll: true });
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

/** What is shown already is better than an error. */
function keepOnError(problem: unknown): null {
  if (isAbort(problem)) throw problem;
  return null;
}
