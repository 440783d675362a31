// The page: header, theme, help, and the view that the address names.
import type { Api, Files } from './api';
import type { Context, Mount, View } from './context';
import { element } from './dom';
import { createHeader } from './header';
import { openHelp } from './help';
import { errorCard } from './notice';
import { formatRoute, parseRoute, type ReportRoute, type Route } from './route';
import { watchTheme } from './theme';
import { mount as mountGraph } from './graph/index';
import { escapeUnseen } from './names';
import { mount as mountPlan } from './plan/index';
import { mountDifference } from './reports/difference';
import { mountForecast } from './reports/forecast';
import { mountShortages } from './reports/shortage';
import { mountRun } from './run/index';
import { isReading, onlyRoute } from './start/entries';
import { mount as mountStart } from './start/index';
import { mount as mountTide } from './tide/index';

const mounts: Record<Route['view'], Mount> = {
  files: mountStart, graph: mountGraph, diff: mountGraph, tide: mountTide, plan: mountPlan, run: mountRun,
  difference: mountDifference, shortage: mountShortages, forecast: mountForecast,
};

const readingTime = 1000;

/** Show the page; `only` is the one thing to show where there is no list of files. */
export function startPage(body: HTMLElement, api: Api, only: ReportRoute | null = null): void {
  const main = element('main', { id: 'main', tabindex: '-1' });
  let view: { kind: Route['view']; view: View } | null = null;
  let files: Files | null = null;

  const themes = watchTheme(show);
  const header = createHeader({ navigate, toggleTheme: () => themes.toggle(), openHelp }, only !== null);
  const context: Context = { api, files: () => files, standalone: only !== null, navigate, theme: () => themes.current() };

  function navigate(route: Route, options: { replace?: boolean } = {}): void {
    const hash = formatRoute(route);
    if (hash === location.hash) return;
    if (options.replace) history.replaceState(null, '', hash);
    else history.pushState(null, '', hash);
    show();
  }

  function show(): void {
    const asked = parseRoute(location.hash);
    const route = only && asked.view !== only.view ? only : asked;
    const first = route.view === 'files' ? firstRoute() : null;
    if (first) return navigate(first, { replace: true });
    header.update(route);
    if (view?.kind !== route.view) {
      // A list that was read earlier may lack what a training has written since.
      if (route.view === 'files' && view) void loadFiles();
      view?.view.destroy();
      main.replaceChildren();
      main.dataset.view = route.view;
      view = { kind: route.view, view: mounts[route.view](main, context) };
    }
    view.view.update(route);
  }

  // Without an address the only graph, tide, plan or run is shown; of several, the list.
  function firstRoute(): Route | null {
    return location.hash.length <= 1 && files && !isReading(files) ? onlyRoute(files) : null;
  }

  // TensorBoard's frame has a base address: without this a link to a hash would leave the page.
  function followLink(event: MouseEvent): void {
    const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
    if (!link || event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(parseRoute(link.getAttribute('href') ?? ''));
  }

  async function loadFiles(): Promise<void> {
    try {
      const found = await api.files();
      // The same list is not drawn again: the user may be reading it.
      if (!files || textOf(found) !== textOf(files)) files = found;
      document.title = escapeUnseen(`${files.title} · lowtide`);
      header.showFiles(files);
      if (parseRoute(location.hash).view === 'files') show();
      // The list arrives before all files have been read.
      if (isReading(files)) setTimeout(() => void loadFiles(), readingTime);
    } catch (problem) {
      if (parseRoute(location.hash).view === 'files') main.replaceChildren(errorCard(problem, () => void loadFiles()));
    }
  }

  body.replaceChildren(element('a', { class: 'unseen skip', href: '#main', onclick: skipTo(main) }, 'Skip to the view'),
    header.element, main);
  body.addEventListener('click', followLink);
  addEventListener('hashchange', show);
  show();
  if (!only) void loadFiles();
}

/** Everything in a list but how far indexes are, which the page does not show. */
function textOf(files: Files): string {
  return JSON.stringify(files, (name, value: unknown) => (name === 'state' ? undefined : value));
}

// The hash is the address of the view, so this link moves the focus itself: to what takes keys, where there is such.
function skipTo(main: HTMLElement): EventListener {
  return (event) => {
    event.preventDefault();
    const first = [...main.querySelectorAll<HTMLElement>('[data-first]')].find((each) => each.checkVisibility());
    (first ?? main).focus();
  };
}
