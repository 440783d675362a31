// The bar at the top: tabs, the choice of a file, help, and the theme.
import type { FileEntry, Files } from './api';
import { formatBytes } from './amounts';
import { element, shape } from './dom';
import { formatRoute, graphRoute, type Route } from './route';

export interface HeaderActions {
  navigate(route: Route): void;
  toggleTheme(): void;
  openHelp(): void;
}

export interface Header {
  element: HTMLElement;
  showFiles(files: Files): void;
  update(route: Route): void;
}

const tabNames = { graph: 'Graph', tide: 'Tide', plan: 'Plan' } as const;
type Tab = keyof typeof tabNames;

/** `standalone` leaves out what leads to other files. */
export function createHeader(actions: HeaderActions, standalone: boolean): Header {
  const picker = element('select', { class: 'picker', 'aria-label': 'What to show' });
  const tabs = element('nav', { class: 'tabs', 'aria-label': 'Views' });
  let route: Route = { view: 'files' };
  let files: Files | null = null;

  picker.addEventListener('change', () => {
    const hash = picker.value;
    if (hash) location.hash = hash;
  });

  function draw(): void {
    if (standalone) return;
    const shown = formatRoute(plainRoute(route));
    picker.value = shown;
    tabs.replaceChildren(...(Object.keys(tabNames) as Tab[]).flatMap((tab) => {
      const target = files && firstOf(files, tab, route);
      const current = route.view === tab || (tab === 'graph' && route.view === 'diff');
      if (!target && !current) return [];
      return [element('a', { href: target ? formatRoute(target) : shown, 'aria-current': current ? 'page' : null }, tabNames[tab])];
    }));
  }

  return {
    element: element('header', { class: 'bar' },
      element('div', { class: 'brand' }, wave(), element('span', {}, 'lowtide')),
      ...(standalone ? [] : [tabs, picker,
        element('button', { type: 'button', class: 'icon', title: 'Keys and help (?)', 'aria-label': 'Keys and help', onclick: actions.openHelp }, '?')]),
      element('button', { type: 'button', class: 'icon', title: 'Light or dark', 'aria-label': 'Light or dark', onclick: actions.toggleTheme }, '◐')),
    showFiles(found) {
      files = found;
      picker.replaceChildren(...found.files.map(fileGroup).filter((group) => group !== null));
      draw();
    },
    update(next) {
      route = next;
      draw();
    },
  };
}

function wave(): SVGElement {
  return shape('svg', { viewBox: '0 0 32 20', 'aria-hidden': 'true' },
    shape('path', { d: 'M0 12c4-9 8-9 11-3s6 6 9 0 7-6 12-1v12H0z' }));
}

function fileGroup(file: FileEntry): HTMLElement | null {
  if (file.kind === 'tide' || file.kind === 'plan') {
    const peak = file.peak_bytes === undefined ? '' : ` · ${formatBytes(file.peak_bytes)}`;
    return element('option', { value: formatRoute({ view: file.kind, id: file.id, options: {} }) },
      `${file.kind} · ${file.title || file.path}${peak}`);
  }
  if (!file.graphs?.length) return null;
  return element('optgroup', { label: file.path }, ...file.graphs.map((graph) =>
    element('option', { value: formatRoute(graphRoute(graph.id)) }, `${graph.label} · ${lastOf(file)}`)));
}

function lastOf(file: FileEntry): string {
  return file.run || file.path.split('/').pop() || file.path;
}

function plainRoute(route: Route): Route {
  if (route.view === 'graph') return graphRoute(route.graph);
  if (route.view === 'diff') return graphRoute(route.one);
  return route.view === 'files' ? route : { ...route, options: {} };
}

// A tab leads to a file of the same run as the open one, if there is one.
function firstOf(files: Files, tab: Tab, route: Route): Route | null {
  if (route.view === tab) return null;
  const open = files.files.find((file) => holds(file, route));
  const fitting = files.files.filter((file) => (tab === 'graph' ? Boolean(file.graphs?.length) : file.kind === tab));
  const chosen = fitting.find((file) => file.run && file.run === open?.run) ?? fitting[0];
  if (!chosen) return null;
  return tab === 'graph' ? graphRoute(chosen.graphs?.[0]?.id ?? '') : { view: tab, id: chosen.id, options: {} };
}

function holds(file: FileEntry, route: Route): boolean {
  if (route.view === 'graph') return Boolean(file.graphs?.some((graph) => graph.id === route.graph));
  if (route.view === 'diff') return Boolean(file.graphs?.some((graph) => graph.id === route.one));
  return route.view !== 'files' && file.id === route.id;
}
