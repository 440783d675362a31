// A pane in the page: waits for its graph, shows progress, problems, the legend, and what is folded or hidden.
import type { Api, GraphReady } from '../api';
import { countOf, formatCount } from '../amounts';
import type { Theme } from '../context';
import { element } from '../dom';
import { errorCard, isAbort } from '../notice';
import { warmUpWorker } from './layout/client';
import { isTideColour, type LegendEntry } from './colours';
import { Pane } from './pane';
import { sleep, waitUntilReady } from './progress';
import { canOpen, countFolded, type Scene } from './scene';
import { diffSource, graphSource, type GraphChoice, type Source } from './source';

export interface HostChoice extends GraphChoice {
  /** The other graph, when the difference of two is shown. */
  other: string | null;
}

interface HostHandlers {
  changed(what: 'open' | 'select'): void;
  completed(): void;
  rebuilt(): void;
  ready(info: GraphReady): void;
  notice(text: string): void;
  /** The address selects something that is not on the screens it opens. */
  missing(name: string): void;
}

/** What the address says should be open and selected. */
interface Wanted {
  open: string[];
  select: string | null;
}

const nothingWanted: Wanted = { open: [], select: null };
const changeTime = 1000;

export class Host {
  readonly element: HTMLElement;
  readonly pane: Pane;
  info: GraphReady | null = null;
  private readonly over = element('div', { class: 'over', hidden: true });
  private readonly folded = element('p', { class: 'folded' });
  private readonly legend = element('div', { class: 'legend' });
  private readonly heading = element('div', { class: 'pane-heading', hidden: true });
  private choice: HostChoice | null = null;
  private wanted: Wanted = nothingWanted;
  private work = new AbortController();

  constructor(private readonly api: Api, private readonly handlers: HostHandlers) {
    warmUpWorker();
    this.pane = new Pane({
      changed: (what) => handlers.changed(what),
      completed: () => handlers.completed(),
      rebuilt: () => this.rebuilt(),
      notice: (text) => handlers.notice(text),
      failed: (problem) => this.fail(problem),
    });
    this.pane.stage.canvas.setAttribute('aria-label', 'The graph. The outline holds the same boxes as a tree.');
    this.element = element('section', { class: 'pane', 'aria-label': 'Graph' }, this.heading,
      element('div', { class: 'drawing' }, this.pane.stage.canvas, this.pane.stage.minimap.canvas),
      element('div', { class: 'below' }, this.legend, this.folded), this.over);
  }

  /** Follows an address: another graph is loaded, another set of open boxes is opened, colours are changed. */
  update(choice: HostChoice, open: string[], select: string | null, theme: Theme): void {
    this.pane.setLook(theme, choice.colour);
    this.wanted = { open, select };
    if (this.choice && sourceName(choice) === sourceName(this.choice)) {
      this.choice = choice;
      if (this.pane.scene) void this.follow(this.wanted);
      this.drawLegend();
      return;
    }
    this.choice = choice;
    void this.load(choice);
  }

  setHeading(...content: (Node | string)[]): void {
    this.heading.hidden = content.length === 0;
    this.heading.replaceChildren(...content);
  }

  destroy(): void {
    this.work.abort();
    this.pane.destroy();
    this.element.remove();
  }

  private async follow({ open, select }: Wanted): Promise<void> {
    await this.pane.setOpen(open);
    if (select !== this.pane.selected) {
      this.pane.mark(select);
      this.handlers.rebuilt();
      if (select !== null && this.pane.selected === null) this.handlers.missing(select);
    }
  }

  private async load(choice: HostChoice): Promise<void> {
    this.work.abort();
    this.work = new AbortController();
    const { signal } = this.work;
    try {
      const info = await this.waitForGraphs(choice, signal);
      this.info = info;
      this.handlers.ready(info);
      this.over.hidden = true;
      const { wanted } = this;
      await this.pane.load(this.source(choice), viewName(choice), wanted.open, wanted.select);
      // The address may have changed meanwhile: a tensor that it names was found.
      if (this.wanted !== wanted) await this.follow(this.wanted);
      this.handlers.rebuilt();
      const { select } = this.wanted;
      if (this.wanted === wanted && select !== null && this.pane.scene && this.pane.selected === null) this.handlers.missing(select);
      await this.followChange(choice, info, signal);
    } catch (problem) {
      if (!isAbort(problem)) this.fail(problem);
    }
  }

  private async waitForGraphs(choice: HostChoice, signal: AbortSignal): Promise<GraphReady> {
    const report = (card: HTMLElement) => this.cover(card);
    const info = await waitUntilReady(this.api, choice.graph, report, signal);
    if (choice.other !== null) await waitUntilReady(this.api, choice.other, report, signal);
    return info;
  }

  // A file that is being written is drawn again when more of it was read, with the same boxes open.
  private async followChange(choice: HostChoice, shown: GraphReady, signal: AbortSignal): Promise<void> {
    while (shown.changing) {
      await sleep(changeTime, signal);
      const info = await this.api.graph(choice.graph, signal);
      if (info.state === 'ready' && info.changing && info.nodes === shown.nodes) continue;
      return this.load(this.choice ?? choice);
    }
  }

  private source(choice: HostChoice): Source {
    return choice.other === null
      ? graphSource(this.api, choice, () => this.info?.parts ?? [])
      : diffSource(this.api, choice.graph, choice.other);
  }

  private rebuilt(): void {
    const { scene } = this.pane;
    if (scene) this.folded.replaceChildren(foldedText(scene), ...(this.info?.notes ?? []).map((note) => element('span', { class: 'note' }, ` · ${note}`)));
    this.drawLegend();
    this.handlers.rebuilt();
  }

  private drawLegend(): void {
    this.legend.replaceChildren(...this.pane.legend().map(legendEntry));
  }

  // What is drawn stays usable: the card covers it only when there is nothing.
  private fail(problem: unknown): void {
    const choice = this.choice;
    const retry = () => {
      this.over.hidden = true;
      this.wanted = nothingWanted;
      if (choice && !this.pane.scene) void this.load(choice);
    };
    const card = errorCard(problem, retry);
    if (this.pane.scene) card.querySelector('button')?.replaceWith(element('button', { type: 'button', onclick: () => (this.over.hidden = true) }, 'Close'));
    this.cover(card);
  }

  private cover(card: HTMLElement): void {
    this.over.hidden = false;
    this.over.replaceChildren(card);
  }
}

/** Choices with the same name are drawn from the same screens. */
function sourceName(choice: HostChoice): string {
  return `${viewName(choice)} ${choice.tide ?? ''} ${isTideColour(choice.colour) ? choice.colour : ''}`;
}

/** Choices with the same name hold the same boxes, perhaps in other colours. */
function viewName({ graph, other, part, focus }: HostChoice): string {
  return `${graph} ${other ?? ''} ${part} ${focus ? JSON.stringify(focus) : ''}`;
}

function foldedText(scene: Scene): string {
  const { nodes, groups, hiddenItems, hiddenEdges } = countFolded(scene);
  const shown = scene.closed().filter(({ item }) => item.kind === 'node' || !canOpen(item)).length;
  return [
    groups ? `${countOf(nodes, 'node')} in ${countOf(groups, 'group')}` : '',
    shown ? `${countOf(shown, 'node')} shown` : '',
    hiddenItems ? `${formatCount(hiddenItems)} not shown` : '',
    hiddenEdges ? `${countOf(hiddenEdges, 'edge')} not drawn` : '',
  ].filter(Boolean).join(' · ');
}

function legendEntry({ label, fill, stroke }: LegendEntry): HTMLElement {
  const box = element('span', { class: 'swatch', 'aria-hidden': 'true' });
  box.style.background = fill;
  box.style.borderColor = stroke;
  return element('span', {}, box, label);
}
