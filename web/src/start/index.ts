// The start page: what can be opened, grouped by run, with a search.
import type { Files } from '../api';
import { countOf, formatBytes, formatCount } from '../amounts';
import type { Context, Mount, View } from '../context';
import { element } from '../dom';
import { showName } from '../names';
import { formatRoute, graphRoute } from '../route';
import { countRuns, isReading, listEntries, listGroups, mainOf, searchGroups, sizeOf, type Entry, type Group } from './entries';

/** The number of rows of a group that are made at once; making thousands is slow. */
const page = 100;
const namedKinds = 4;

export const mount: Mount = (container, context) => new StartView(container, context);

class StartView implements View {
  private readonly search = element('input', {
    type: 'search', class: 'find', placeholder: 'Search by name, run or file', 'aria-label': 'Search graphs, tides, plans and training runs', autocomplete: 'off', spellcheck: 'false',
  });
  private readonly count = element('p', { class: 'hint', role: 'status' });
  private readonly list = element('div', { class: 'groups' });
  private readonly title = element('h1', {});
  private shown: Files | null = null;
  private readonly onKey = (event: KeyboardEvent) => this.key(event);

  constructor(container: HTMLElement, private readonly context: Context) {
    this.search.addEventListener('input', () => this.draw());
    this.search.dataset.first = '';
    container.replaceChildren(element('div', { class: 'start' }, this.title, this.search, this.count, this.list));
    document.addEventListener('keydown', this.onKey);
  }

  update(): void {
    const files = this.context.files();
    if (files === this.shown) return;
    this.shown = files;
    this.draw();
  }

  destroy(): void {
    document.removeEventListener('keydown', this.onKey);
  }

  private draw(): void {
    const { shown } = this;
    if (!shown) return;
    const open = this.openGroups();
    const found = searchGroups(listGroups(shown), this.search.value);
    const searching = this.search.value.trim() !== '';
    this.title.textContent = showName(shown.title);
    this.count.textContent = describeCount(shown, found, searching);
    this.search.hidden = !listEntries(shown).length;
    this.list.replaceChildren(...(listEntries(shown).length || isReading(shown) ? [] : [emptyHint(shown)]),
      ...found.map((group) => groupSection(group, searching, open)));
  }

  // What the user has unfolded stays so when more files were read.
  private openGroups(): Set<string> {
    return new Set([...this.list.querySelectorAll<HTMLDetailsElement>('details[open]')].map((each) => each.dataset.group ?? ''));
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    if (event.key === '/' && event.target !== this.search) {
      event.preventDefault();
      this.search.focus();
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') this.step(event, event.key === 'ArrowDown' ? 1 : -1);
  }

  private step(event: KeyboardEvent, by: 1 | -1): void {
    const rows = [this.search, ...this.list.querySelectorAll<HTMLElement>('a.open, summary, button.more')].filter((row) => row.checkVisibility());
    const at = document.activeElement?.closest('.entry')?.querySelector<HTMLElement>('a.open') ?? document.activeElement;
    const next = rows[rows.indexOf(at as HTMLElement) + by];
    if (!next || !rows.includes(at as HTMLElement)) return;
    event.preventDefault();
    next.focus();
  }
}

function describeCount(files: Files, found: Group[], searching: boolean): string {
  const entries = found.flatMap((group) => [...group.entries, ...group.small]);
  const of = (kind: Entry['kind']) => entries.filter((entry) => entry.kind === kind);
  const graphs = of('graph').reduce((sum, { versions }) => sum + versions.length, 0);
  const reports = [['tide', 'tide'], ['plan', 'plan'], ['run', 'training run']] as const;
  const parts = [graphs ? countOf(graphs, 'graph') : '', ...reports.map(([kind, name]) => (of(kind).length ? countOf(of(kind).length, name) : ''))];
  const runs = countRuns(found);
  const reading = files.files.filter(({ kind }) => kind === 'reading').length;
  return [
    searching && !entries.length ? 'Nothing matches' : parts.filter(Boolean).join(', '),
    runs > 1 && graphs + of('tide').length + of('plan').length ? `in ${formatCount(runs)} runs` : '',
    reading ? `· reading ${countOf(reading, 'file')} …` : '',
  ].filter(Boolean).join(' ');
}

function groupSection(group: Group, searching: boolean, open: Set<string>): HTMLElement {
  const { name, entries, small, notes } = group;
  return element('section', { class: 'card group', 'aria-label': name ? showName(name) : 'Files' },
    name !== '' && element('h2', {}, showName(name)),
    rows(entries, searching ? null : mainOf(group)),
    small.length > 0 && smallSection(name, small, open.has(name)),
    ...notes.slice(0, page).map(({ path, note }) => element('p', { class: 'hint' }, `${path}: ${note}`)));
}

function smallSection(name: string, small: Entry[], isOpen: boolean): HTMLElement {
  const made = element('details', { class: 'small', open: isOpen },
    element('summary', {}, `${countOf(small.length, 'small function')} · ${kindsOf(small)}`));
  made.dataset.group = name;
  const fill = () => made.open && made.children.length === 1 && made.append(rows(small, null));
  made.addEventListener('toggle', fill);
  if (isOpen) fill();
  return made;
}

function kindsOf(entries: Entry[]): string {
  const counts = new Map<string, number>();
  for (const { name } of entries) counts.set(name, (counts.get(name) ?? 0) + 1);
  const most = [...counts].sort(([, one], [, other]) => other - one);
  const named = most.slice(0, namedKinds).map(([name, count]) => (count > 1 ? `${formatCount(count)} × ${showName(name)}` : showName(name)));
  return named.join(', ') + (most.length > namedKinds ? ', …' : '');
}

function rows(entries: Entry[], main: Entry | null): HTMLElement {
  const list = element('ul', { class: 'entries' });
  const more = element('button', { type: 'button', class: 'quiet more', onclick: () => add() });
  const add = () => {
    const from = list.children.length;
    list.append(...entries.slice(from, from + page).map((entry) => row(entry, entry === main)));
    const left = entries.length - list.children.length;
    more.hidden = left <= 0;
    more.textContent = `Show ${formatCount(Math.min(page, left))} more of ${formatCount(left)}`;
    if (from) list.children[from]?.querySelector<HTMLElement>('a')?.focus();
  };
  add();
  return element('div', {}, list, more);
}

function row(entry: Entry, isMain: boolean): HTMLElement {
  const { kind, name, about, versions, route, pair, file } = entry;
  return element('li', { class: `entry ${kind}${isMain ? ' main' : ''}` },
    element('a', { class: 'open', href: formatRoute(route), title: file.path },
      element('span', { class: 'name' }, showName(name)),
      kind !== 'graph' && element('span', { class: 'chip' }, kind === 'run' ? 'training run' : kind),
      isMain && element('span', { class: 'chip' }, 'main graph')),
    element('span', { class: 'about' }, showName(about)),
    versions.length > 1 && element('span', { class: 'versions' },
      ...versions.map(({ id, label, nodes }) => element('a', { href: formatRoute(graphRoute(id)) }, nodes === null ? label : `${label} · ${formatCount(nodes)}`)),
      pair && element('a', { href: formatRoute({ view: 'diff', one: pair[0], other: pair[1], open: [], select: null }) }, 'difference')),
    element('span', { class: 'size' }, sizeText(entry)));
}

function sizeText(entry: Entry): string {
  if (entry.kind === 'tide') return entry.file.peak_bytes === undefined ? '' : `peak ${formatBytes(entry.file.peak_bytes)}`;
  if (entry.kind === 'run') return countOf(entry.file.steps ?? 0, 'step');
  if (entry.kind === 'plan') return '';
  const nodes = sizeOf(entry);
  return nodes === null ? formatBytes(Math.max(...entry.versions.map(({ bytes }) => bytes ?? 0))) : countOf(nodes, 'node');
}

function emptyHint({ title }: Files): HTMLElement {
  return element('div', { class: 'card problem' },
    element('h2', {}, 'Nothing to show'),
    element('p', {}, `No graph, tide, plan or training run was found in ${title}.`),
    element('p', { class: 'hint' },
      'Point lowtide view at event files, a SavedModel, a .pb or .pbtxt graph, a .keras model, a tide, a plan or the directory of a training run.'));
}
