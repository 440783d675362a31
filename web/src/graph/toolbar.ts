// The row above the graph: panels, colours, zoom, comparison, files.
import type { FileEntry, Files } from '../api';
import { element } from '../dom';
import { graphColours, tideColours } from './colours';

export interface ToolbarHandlers {
  toggleSide(): void;
  colour(colour: string, tide: number | null): void;
  zoom(factor: number): void;
  fit(): void;
  png(): void;
  svg(): void;
  beside(graph: string | null): void;
  difference(graph: string): void;
}

export interface ToolbarState {
  graph: string;
  colour: string;
  tide: number | null;
  comparing: boolean;
  /** A difference has colours of its own. */
  difference: boolean;
}

export class Toolbar {
  readonly element: HTMLElement;
  private readonly colours = element('select', { 'aria-label': 'What colours say' });
  private readonly compare = element('details', { class: 'menu' });
  private files: FileEntry[] = [];
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
    this.files = files.files;
    this.draw();
  }

  update(state: ToolbarState): void {
    if (JSON.stringify(state) === JSON.stringify(this.state)) return;
    this.state = state;
    this.draw();
  }

  /** A graph as a person would call it; its number while the list of files is not there. */
  nameOf(graph: string): string {
    const file = this.files.find(({ graphs }) => graphs?.some(({ id }) => id === graph));
    const label = file?.graphs?.find(({ id }) => id === graph)?.label;
    return file ? `${file.run || file.path} · ${label}` : graph;
  }

  private draw(): void {
    this.colours.disabled = this.state.difference;
    const tides = this.files.filter((file) => file.kind === 'tide');
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
    const others = this.files.flatMap((file) => (file.graphs ?? []).filter(({ id }) => id !== this.state.graph).map((graph) => ({ graph, file })));
    this.compare.hidden = !others.length && !this.state.comparing;
    const act = (run: () => void) => () => {
      this.compare.open = false;
      run();
    };
    this.compare.replaceChildren(element('summary', {}, 'Compare'), element('div', { class: 'card popup' },
      this.state.comparing && element('button', { type: 'button', onclick: act(() => this.handlers.beside(null)) }, 'Show one graph only'),
      ...others.slice(0, 100).map(({ graph, file }) => element('div', { class: 'pair' },
        element('span', { class: 'name', title: file.path }, this.nameOf(graph.id)),
        element('button', { type: 'button', onclick: act(() => this.handlers.beside(graph.id)) }, 'Beside'),
        element('button', { type: 'button', onclick: act(() => this.handlers.difference(graph.id)) }, 'Difference')))));
  }
}
