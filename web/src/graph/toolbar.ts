// The row above the graph: panels, colours, zoom, comparison, files.
import type { Files } from '../api';
import { formatCount } from '../amounts';
import { element } from '../dom';
import { showName } from '../names';
import { graphRoute } from '../route';
import { findShown, listEntries, type Entry } from '../start/entries';
import { graphColours, tideColours } from './colours';

interface ToolbarHandlers {
  toggleSide(): void;
  colour(colour: string, tide: number | null): void;
  zoom(factor: number): void;
  fit(): void;
  png(): void;
  svg(): void;
  beside(graph: string | null): void;
  difference(graph: string): void;
}

interface ToolbarState {
  graph: string;
  colour: string;
  tide: number | null;
  comparing: boolean;
  /** A difference has colours of its own. */
  difference: boolean;
}

/** A graph to compare with. */
interface Other {
  id: string;
  path: string;
  searched: string;
}

const mostListed = 50;

export class Toolbar {
  readonly element: HTMLElement;
  private readonly colours = element('select', { 'aria-label': 'What colours say' });
  private readonly popup = element('div', { class: 'card popup' });
  private readonly compare = element('details', { class: 'menu' }, element('summary', {}, 'Compare'), this.popup);
  private files: Files | null = null;
  private state: ToolbarState = { graph: '', colour: '', tide: null, comparing: false, difference: false };

  constructor(private readonly handlers: ToolbarHandlers) {
    this.colours.addEventListener('change', () => {
      const [colour = '', tide = ''] = this.colours.value.split('@');
      handlers.colour(colour, tide === '' ? null : Number(tide));
    });
    const button = (label: string, title: string, onclick: () => void, kind = '') =>
      element('button', { type: 'button', title, 'aria-label': title, class: kind || null, onclick }, label);
    this.element = element('div', { class: 'tools', role: 'toolbar', 'aria-label': 'Graph' },
      button('☰', 'Outline and search', handlers.toggleSide, 'icon side-toggle'),
      element('label', { class: 'choice' }, element('span', {}, 'Colour'), this.colours),
      this.compare,
      element('span', { class: 'spring' }),
      element('div', { class: 'joined' },
        button('−', 'Zoom out (-)', () => handlers.zoom(0.8), 'icon zoom'), button('Fit', 'Show everything (0)', handlers.fit), button('+', 'Zoom in (+)', () => handlers.zoom(1.25), 'icon zoom')),
      element('div', { class: 'joined' }, button('PNG', 'Save everything drawn as PNG', handlers.png), button('SVG', 'Save everything drawn as SVG', handlers.svg)));
    this.compare.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') this.compare.open = false;
    });
    this.compare.addEventListener('focusout', ({ relatedTarget }) => {
      if (!(relatedTarget instanceof Node && this.compare.contains(relatedTarget))) this.compare.open = false;
    });
    this.draw();
  }

  setFiles(files: Files): void {
    this.files = files;
    this.draw();
  }

  update(state: ToolbarState): void {
    if (JSON.stringify(state) === JSON.stringify(this.state)) return;
    this.state = state;
    this.draw();
  }

  /** A graph as a person would call it; its number while the list of files is not there. */
  nameOf(graph: string): string {
    const shown = this.files && findShown(this.files, graphRoute(graph));
    if (!shown) return graph;
    const { group, entry, version } = shown;
    return [group.name, entry.name, entry.versions.length > 1 ? version?.label ?? '' : ''].filter(Boolean).map(showName).join(' · ');
  }

  private draw(): void {
    this.colours.disabled = this.state.difference;
    const tides = (this.files?.files ?? []).filter((file) => file.kind === 'tide');
    const option = (value: string, label: string) => element('option', { value }, label);
    this.colours.replaceChildren(
      ...graphColours.map(([mode, label]) => option(mode, label)),
      ...tides.map((tide) => element('optgroup', { label: tide.title || tide.path },
        ...tideColours.map(([mode, label]) => option(`${mode}@${tide.id}`, label)))));
    const { colour, tide } = this.state;
    this.colours.value = tide === null ? colour : `${colour}@${tide}`;
    if (this.colours.selectedIndex < 0) this.colours.value = '';
    this.drawCompare();
  }

  private drawCompare(): void {
    const others = this.listOthers();
    this.compare.hidden = !others.length && !this.state.comparing;
    const filter = element('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search graphs to compare with', hidden: others.length <= mostListed });
    const list = element('div', { class: 'pairs' });
    const fill = () => {
      const found = others.filter(({ searched }) => searched.includes(filter.value.trim().toLowerCase()));
      list.replaceChildren(...found.slice(0, mostListed).map((other) => this.pairLine(other)),
        ...(found.length > mostListed ? [element('p', { class: 'hint' }, `${formatCount(found.length - mostListed)} more: search for them.`)] : []));
    };
    filter.addEventListener('input', fill);
    fill();
    const back = element('button', { type: 'button', onclick: this.act(() => this.handlers.beside(null)) }, 'Show one graph only');
    this.popup.replaceChildren(...(this.state.comparing ? [back] : []), filter, list);
  }

  /** The other versions of the same graph first, then all others as the start page lists them. */
  private listOthers(): Other[] {
    const { files, state: { graph: open } } = this;
    if (!files) return [];
    const same = findShown(files, graphRoute(open))?.entry;
    const entries: Entry[] = [...(same ? [same] : []), ...listEntries(files).filter((entry) => entry !== same)];
    return entries.flatMap(({ versions, searched, file }) =>
      versions.filter(({ id }) => id !== open).map(({ id }) => ({ id, path: file.path, searched })));
  }

  private pairLine({ id, path }: Other): HTMLElement {
    return element('div', { class: 'pair' },
      element('span', { class: 'name', title: path }, this.nameOf(id)),
      element('button', { type: 'button', onclick: this.act(() => this.handlers.beside(id)) }, 'Beside'),
      element('button', { type: 'button', onclick: this.act(() => this.handlers.difference(id)) }, 'Difference'));
  }

  private act(run: () => void): () => void {
    return () => {
      this.compare.open = false;
      run();
    };
  }
}
