// The bar at the top: the start page, tabs, what is shown, help, and the theme.
import type { Files } from './api';
import { element, shape } from './dom';
import { showName } from './names';
import { formatRoute, graphRoute, type Route } from './route';
import { findShown, listGroups, type Entry } from './start/entries';

interface HeaderActions {
  navigate(route: Route): void;
  toggleTheme(): void;
  openHelp(): void;
}

interface Header {
  element: HTMLElement;
  showFiles(files: Files): void;
  update(route: Route): void;
}

const tabNames = { files: 'Start', graph: 'Graph', tide: 'Tide', plan: 'Plan', run: 'Run' } as const;
type Tab = keyof typeof tabNames;

/** `standalone` leaves out what leads to other files. */
export function createHeader(actions: HeaderActions, standalone: boolean): Header {
  const where = element('div', { class: 'where' });
  const tabs = element('nav', { class: 'tabs', 'aria-label': 'Views' });
  let route: Route = { view: 'files' };
  let files: Files | null = null;

  function draw(): void {
    if (standalone) return;
    replaceChanged(tabs, (Object.keys(tabNames) as Tab[]).flatMap((tab) => {
      const current = route.view === tab || (tab === 'graph' && route.view === 'diff');
      const target = current ? route : tab === 'files' ? { view: tab } as const : files && firstOf(files, tab, route);
      if (!target) return [];
      return [element('a', { href: formatRoute(target), 'aria-current': current ? 'page' : null }, tabNames[tab])];
    }));
    replaceChanged(where, files ? describeShown(files, route, actions.navigate) : []);
  }

  return {
    element: element('header', { class: 'bar' },
      element('div', { class: 'brand' }, wave(), element('span', {}, 'lowtide')),
      ...(standalone ? [] : [tabs, where,
        element('button', { type: 'button', class: 'icon', title: 'Keys and help (?)', 'aria-label': 'Keys and help', onclick: actions.openHelp }, '?')]),
      element('button', { type: 'button', class: 'icon', title: 'Light or dark', 'aria-label': 'Light or dark', onclick: actions.toggleTheme }, '◐')),
    showFiles(found) {
      files = found;
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

/** What is the same stays: it may have the focus. */
function replaceChanged(place: HTMLElement, children: HTMLElement[]): void {
  if (children.map((child) => child.outerHTML).join('') !== place.innerHTML) place.replaceChildren(...children);
}

/** The run and the name of what is shown, and a choice between its versions. */
function describeShown(files: Files, route: Route, navigate: (route: Route) => void): HTMLElement[] {
  const shown = findShown(files, route);
  if (!shown) return [];
  const { entry, group, version } = shown;
  const name = [group.name, entry.name].filter(Boolean).map(showName).join(' · ');
  const made = [element('span', { class: 'name', title: `${entry.file.path} · ${entry.about}` }, name)];
  if (route.view !== 'graph' || entry.versions.length < 2) return made;
  const choice = element('select', { 'aria-label': 'Before or after optimization' }, ...entry.versions.map(({ id, label }) =>
    element('option', { value: id, selected: id === version?.id }, label)));
  choice.addEventListener('change', () => navigate(graphRoute(choice.value)));
  return [...made, choice];
}

/** A tab leads to an entry of the same run as the open one, if there is one. */
function firstOf(files: Files, tab: Entry['kind'], route: Route): Route | null {
  const open = findShown(files, route)?.group;
  const groups = listGroups(files);
  for (const group of open ? [open, ...groups] : groups) {
    const entry = group.entries.find(({ kind }) => kind === tab);
    if (entry) return entry.route;
  }
  return null;
}
