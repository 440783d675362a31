// The page: header, theme, help, and the view that the address names.
import type { Api, Files } from './api';
import type { Context, Mount, View } from './context';
import { element } from './dom';
import { createHeader } from './header';
import { openHelp } from './help';
import { errorCard } from './notice';
import { formatRoute, graphRoute, parseRoute, type ReportRoute, type Route } from './route';
import { watchTheme } from './theme';
import { mount as mountGraph } from './graph/index';
import { mount as mountPlan } from './plan/index';
import { mountDifference } from './reports/difference';
import { mountForecast } from './reports/forecast';
import { mountShortages } from './reports/shortage';
import { mount as mountTide } from './tide/index';

const mounts: Record<Exclude<Route['view'], 'files'>, Mount> = {
  graph: mountGraph, diff: mountGraph, tide: mountTide, plan: mountPlan,
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
  const context: Context = { api, standalone: only !== null, navigate, theme: () => themes.current() };

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
    header.update(route);
    if (route.view === 'files') return showFirst();
    if (view?.kind !== route.view) {
      view?.view.destroy();
      main.replaceChildren();
      main.dataset.view = route.view;
      view = { kind: route.view, view: mounts[route.view](main, context) };
    }
    view.view.update(route);
  }

  // Without an address the first file is shown; an empty list has a message.
  function showFirst(): void {
    const first = files && firstRoute(files);
    if (first) navigate(first, { replace: true });
    else if (files && !files.files.some(({ kind }) => kind === 'reading')) main.replaceChildren(emptyCard(files));
  }

  async function loadFiles(): Promise<void> {
    try {
      files = await api.files();
      document.title = `${files.title} · lowtide`;
      header.showFiles(files);
      if (parseRoute(location.hash).view === 'files') show();
      // The list arrives before all files have been read.
      if (files.files.some(({ kind }) => kind === 'reading')) setTimeout(() => void loadFiles(), readingTime);
    } catch (problem) {
      if (parseRoute(location.hash).view === 'files') main.replaceChildren(errorCard(problem, () => void loadFiles()));
    }
  }

  body.replaceChildren(element('a', { class: 'unseen skip', href: '#main', onclick: skipTo(main) }, 'Skip to the view'),
    header.element, main);
  addEventListener('hashchange', show);
  show();
  if (!only) void loadFiles();
}

function firstRoute(files: Files): Route | null {
  for (const file of files.files) {
    const graph = file.graphs?.[0];
    if (graph) return graphRoute(graph.id);
    if (file.kind === 'tide' || file.kind === 'plan') return { view: file.kind, id: file.id, options: {} };
  }
  return null;
}

function emptyCard({ title, files }: Files): HTMLElement {
  return element('div', { class: 'card problem' },
    element('h2', {}, 'Nothing to show'),
    element('p', {}, `No graph, tide or plan was found in ${title}.`),
    ...files.flatMap(({ path, notes }) => (notes ?? []).map((note) => element('p', { class: 'hint' }, `${path}: ${note}`))).slice(0, 20),
    element('p', { class: 'hint' },
      'Point lowtide view at event files, a SavedModel, a .pb or .pbtxt graph, a .keras model, a tide or a plan.'));
}

// The hash is the address of the view, so this link moves the focus itself.
function skipTo(main: HTMLElement): EventListener {
  return (event) => {
    event.preventDefault();
    main.focus();
  };
}
