// Search while typing, with filters; the view handles the chosen result.
import type { GraphReady, SearchAnswer, SearchQuery, SearchResult } from '../api';
import { countOf, formatCount, parseBytes } from '../amounts';
import { element } from '../dom';
import { showName } from '../names';
import { errorCard, isAbort } from '../notice';
import { shortDevice } from './colours';

interface SearchHandlers {
  ask(query: SearchQuery, signal: AbortSignal): Promise<SearchAnswer>;
  choose(result: SearchResult): void;
  /** Results replace the outline while there is a search text. */
  shown(active: boolean): void;
}

const pause = 80;

export class Search {
  readonly input = element('input', {
    type: 'search', placeholder: 'Search nodes and scopes  ( / )', 'aria-label': 'Search nodes and scopes', spellcheck: 'false', autocomplete: 'off',
  });
  readonly element: HTMLElement;
  readonly results = element('div', { class: 'results', hidden: true });
  private readonly op = element('input', { type: 'text', list: 'lowtide-ops', placeholder: 'MatMul, Conv2D', spellcheck: 'false', autocomplete: 'off' });
  private readonly ops = element('datalist', { id: 'lowtide-ops' });
  private readonly scope = element('input', { type: 'text', placeholder: 'tower_0/', spellcheck: 'false', autocomplete: 'off' });
  private readonly device = element('select');
  private readonly dtype = element('select');
  private readonly phase = element('select');
  private readonly bytes = element('input', { type: 'text', placeholder: '1 MiB', autocomplete: 'off' });
  private readonly filters: HTMLDetailsElement;
  private timer = 0;
  private work = new AbortController();

  constructor(private readonly handlers: SearchHandlers) {
    const field = (label: string, control: HTMLElement) => element('label', {}, element('span', {}, label), control);
    this.filters = element('details', { class: 'filters' }, element('summary', {}, 'Filters'),
      element('div', { class: 'fields' },
        field('Op', this.op), this.ops, field('Scope', this.scope), field('Device', this.device),
        field('Dtype', this.dtype), field('Phase', this.phase), field('At least', this.bytes)));
    this.element = element('form', { class: 'search', role: 'search', onsubmit: (event) => event.preventDefault() }, this.input, this.filters);
    this.element.addEventListener('input', () => this.schedule());
    this.element.addEventListener('keydown', (event) => this.key(event));
    this.results.addEventListener('keydown', (event) => this.key(event));
  }

  /** What can be filtered by, from what the graph holds. */
  setChoices(info: GraphReady): void {
    this.ops.replaceChildren(...info.ops.slice(0, 300).map(([op, count]) => element('option', { value: op, label: `${op} · ${formatCount(count)}` })));
    fillSelect(this.device, info.devices, shortDevice);
    fillSelect(this.dtype, info.dtypes);
    fillSelect(this.phase, info.phases);
  }

  focus(): void {
    this.input.focus();
    this.input.select();
  }

  clear(): void {
    for (const control of [this.input, this.op, this.scope, this.bytes, this.device, this.dtype, this.phase]) control.value = '';
    this.run();
  }

  private query(): SearchQuery {
    return {
      q: this.input.value.trim(), op: this.op.value.replaceAll(' ', ''), scope: this.scope.value.trim(), device: this.device.value,
      dtype: this.dtype.value, phase: this.phase.value, bytes: parseBytes(this.bytes.value), limit: 50,
    };
  }

  private schedule(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.run(), pause);
  }

  private run(): void {
    clearTimeout(this.timer);
    this.work.abort();
    const query = this.query();
    const active = Boolean(query.q || query.op || query.scope || query.device || query.dtype || query.phase || query.bytes);
    this.filters.classList.toggle('used', active && !query.q);
    this.results.hidden = !active;
    this.handlers.shown(active);
    if (active) void this.ask(query);
  }

  private async ask(query: SearchQuery): Promise<void> {
    this.work = new AbortController();
    try {
      const answer = await this.handlers.ask(query, this.work.signal);
      this.results.replaceChildren(...this.list(answer));
    } catch (problem) {
      if (!isAbort(problem)) this.results.replaceChildren(errorCard(problem));
    }
  }

  private list({ total, results, milliseconds }: SearchAnswer): HTMLElement[] {
    const more = total > results.length ? `, the first ${formatCount(results.length)} are listed` : '';
    return [
      element('div', { class: 'found' },
        element('p', { class: 'hint', role: 'status' }, `${formatCount(total)} found${more} · ${Math.round(milliseconds)} ms`),
        element('button', { type: 'button', class: 'quiet', onclick: () => this.clear() }, 'Clear')),
      element('ul', { class: 'links' }, ...results.map((result) => this.line(result))),
    ];
  }

  private line(result: SearchResult): HTMLElement {
    const cut = result.name.lastIndexOf('/') + 1;
    return element('li', {}, element('button', { type: 'button', title: result.name, onclick: () => this.handlers.choose(result) },
      element('span', { class: 'name' }, showName(result.name.slice(cut))),
      element('span', { class: 'count' }, result.kind === 'scope' ? countOf(result.nodes, 'node') : result.op),
      cut > 0 && element('span', { class: 'where' }, result.name.slice(0, cut - 1))));
  }

  // Enter chooses the first result (a form of several fields is not submitted by it), down and up go through them.
  private key(event: KeyboardEvent): void {
    const buttons = [...this.results.querySelectorAll<HTMLButtonElement>('li button')];
    const place = buttons.indexOf(document.activeElement as HTMLButtonElement);
    if (event.key === 'Escape') this.clear();
    else if (event.key === 'Enter' && event.target === this.input) buttons[0]?.click();
    else if (event.key === 'ArrowDown' && !(event.target instanceof HTMLSelectElement)) buttons[place + 1]?.focus();
    else if (event.key === 'ArrowUp' && place >= 0) (buttons[place - 1] ?? this.input).focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function fillSelect(select: HTMLSelectElement, values: [string, number][], label: (value: string) => string = String): void {
  select.replaceChildren(element('option', { value: '' }, 'any'),
    ...values.filter(([value]) => value).map(([value, count]) => element('option', { value }, `${label(value)} · ${formatCount(count)}`)));
}
