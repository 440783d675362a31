// The graph view: one pane, or two beside each other, between the outline with its search and the details.
import type { GraphReady, SearchResult } from '../api';
import { formatCount } from '../amounts';
import type { Context, View } from '../context';
import { element } from '../dom';
import { openHelp } from '../help';
import { escapeUnseen } from '../names';
import { isAbort, messageOf } from '../notice';
import { formatRoute, graphRoute, type DiffRoute, type GraphRoute, type Route } from '../route';
import { Details } from './details';
import { savePng, saveSvg } from './export';
import { Host, type HostChoice } from './host';
import { handleKey } from './keyboard';
import { describe, Outline } from './outline';
import { PartPicker } from './parts';
import { countDrawing, installProbe } from './probe';
import { splitKey, type Box } from './scene';
import { Search } from './search';
import { Toolbar } from './toolbar';

type ShownRoute = GraphRoute | DiffRoute;

/** More scopes inside each other than this cannot be read, however they are drawn. */
const mostNested = 60;

export class GraphView implements View {
  private route: ShownRoute | null = null;
  private readonly main: Host;
  private beside: Host | null = null;
  private active: Host;
  private inStep = true;
  private pathStart: { part: number; name: string } | null = null;
  private readonly outline: Outline;
  private readonly search: Search;
  private readonly details: Details;
  private readonly toolbar: Toolbar;
  private readonly parts: PartPicker;
  private readonly banner = element('div', { class: 'banner', hidden: true });
  private readonly announcer = element('p', { class: 'unseen', 'aria-live': 'polite' });
  private readonly panes = element('div', { class: 'panes' });
  private readonly right = element('aside', { class: 'side right', 'aria-label': 'Details' });
  private readonly workspace: HTMLElement;
  private detailed: Box | null = null;
  private noticeTimer = 0;
  private asked = false;
  private readonly onKey = (event: KeyboardEvent) => this.key(event);

  constructor(container: HTMLElement, private readonly context: Context) {
    this.main = this.createHost();
    this.active = this.main;
    this.outline = new Outline({ choose: (id) => this.chooseInOutline(id), toggle: (id) => void this.active.pane.toggle(id) });
    this.search = this.createSearch();
    this.details = this.createDetails();
    this.toolbar = this.createToolbar();
    this.parts = new PartPicker((part) => this.enter(part));
    this.panes.append(this.main.element);
    const left = element('aside', { class: 'side', 'aria-label': 'Outline and search' },
      this.search.element, this.parts.element, this.search.results, this.outline.element);
    this.right.append(this.details.element);
    this.workspace = element('div', { class: 'workspace' }, left,
      element('div', { class: 'middle' }, this.toolbar.element, this.banner, this.panes), this.right, this.announcer);
    container.replaceChildren(this.workspace);
    document.addEventListener('keydown', this.onKey);
    this.details.show(null);
    installProbe(() => this.active);
  }

  update(route: Route): void {
    if (route.view !== 'graph' && route.view !== 'diff') return;
    this.route = route;
    const theme = this.context.theme();
    this.main.update(mainChoice(route), route.open, route.select, theme);
    const beside = route.view === 'graph' ? route.beside : null;
    this.setBeside(beside);
    if (route.view === 'graph' && beside !== null) {
      this.beside?.update({ ...mainChoice(route), graph: beside, tide: null }, route.besideOpen, null, theme);
    }
    this.toolbar.update({
      graph: route.view === 'graph' ? route.graph : route.one, colour: route.view === 'graph' ? colourOf(route) : '',
      tide: route.view === 'graph' ? route.tide : null, comparing: route.view === 'diff' || beside !== null, difference: route.view === 'diff',
    });
    this.parts.select(route.view === 'graph' ? route.part : 0);
    this.drawBanner();
    if (route.view === 'graph' && route.tensor !== null) void this.followTensor(route, route.tensor);
  }

  destroy(): void {
    document.removeEventListener('keydown', this.onKey);
    this.main.destroy();
    this.beside?.destroy();
    this.workspace.remove();
  }

  private createHost(): Host {
    const host: Host = new Host(this.context.api, {
      changed: (what) => this.paneChanged(host, what),
      completed: () => countDrawing(),
      rebuilt: () => this.mirror(host),
      ready: (info) => this.ready(host, info),
      notice: (text) => this.say(text),
      missing: (name) => this.revealMissing(name),
    });
    host.element.addEventListener('focusin', () => this.activate(host));
    host.element.addEventListener('pointerdown', () => {
      this.activate(host);
      this.workspace.classList.remove('side-open');
    });
    host.pane.stage.canvas.addEventListener('keydown', (event) => {
      if (handleKey(event, host.pane)) event.preventDefault();
    });
    return host;
  }

  private createSearch(): Search {
    return new Search({
      ask: (query, signal) => this.context.api.search(this.activeGraph(), query, signal),
      choose: (result) => void this.chooseResult(result),
      shown: (active) => (this.outline.element.hidden = active),
    });
  }

  private createDetails(): Details {
    return new Details({
      ask: (box, from, signal) => this.context.api.node(this.graphOf(box), {
        part: box.sheet.screen.part, name: box.item.key, tide: this.route?.view === 'graph' ? this.route.tide : null,
        inputs_from: from.inputs, readers_from: from.readers,
      }, signal),
      askGroup: (box, from, signal) => this.context.api.group(this.graphOf(box), {
        part: box.sheet.screen.part, ...splitKey(box.item.key), inputs_from: from.inputs, outputs_from: from.outputs,
      }, signal),
      go: (part, name) => void this.reveal(part, name),
      toggle: (id) => void this.active.pane.toggle(id),
      around: (part, name, hops, direction) => this.show({ part, open: [], select: name, focus: { kind: 'around', name, hops, direction } }),
      pathFrom: (part, name) => {
        this.pathStart = { part, name };
        this.say('Now choose where the paths end, and press "Path to here".');
        this.details.show(this.detailed);
      },
      pathTo: (part, name) => this.showPaths(part, name),
      enter: (part) => this.enter(part),
      close: () => this.active.pane.choose(null),
      tideAddress: (tensor) => formatRoute({ view: 'tide', id: (this.route?.view === 'graph' && this.route.tide) || 0, options: { tensor } }),
      pathStart: () => this.pathStart?.name ?? null,
    });
  }

  private createToolbar(): Toolbar {
    return new Toolbar({
      toggleSide: () => this.workspace.classList.toggle('side-open'),
      colour: (colour, tide) => this.show({ colour, tide }),
      zoom: (factor) => this.active.pane.stage.zoom(factor),
      fit: () => this.active.pane.stage.fit(),
      png: () => savePng(this.active.pane.stage, this.fileName()),
      svg: () => saveSvg(this.active.pane.stage, this.fileName()),
      beside: (graph) => this.show({ beside: graph, besideOpen: graph === null ? [] : this.route?.open ?? [] }),
      difference: (other) => this.context.navigate({ view: 'diff', one: this.activeGraph(), other, open: [], select: null }),
    });
  }

  // A second pane comes and goes with the address.
  private setBeside(graph: string | null): void {
    if (graph === null) {
      this.beside?.destroy();
      this.beside = null;
      this.active = this.main;
      this.main.setHeading();
    } else if (!this.beside) {
      this.beside = this.createHost();
      this.panes.append(this.beside.element);
      const box = element('input', { type: 'checkbox' });
      box.checked = this.inStep;
      box.addEventListener('change', () => (this.inStep = box.checked));
      this.beside.setHeading(element('span', {}, ''), element('label', {}, box, 'in step'));
    }
    this.panes.classList.toggle('two', this.beside !== null);
  }

  private ready(host: Host, info: GraphReady): void {
    this.askForFiles();
    if (host === this.active) {
      this.search.setChoices(info);
      this.parts.setParts(info);
    }
    if (this.beside) {
      this.main.setHeading(element('span', {}, this.main.info?.path ?? ''));
      const name = this.beside.element.querySelector('.pane-heading span');
      if (name) name.textContent = escapeUnseen(this.beside.info?.path ?? '');
    }
  }

  // Only needed for comparing and for colours from a tide, so it waits until the graph is there.
  private askForFiles(): void {
    if (this.asked) return;
    this.asked = true;
    this.context.api.files().then((files) => {
      this.toolbar.setFiles(files);
      this.drawBanner();
    }).catch(() => (this.asked = false));
  }

  private activate(host: Host): void {
    if (host === this.active) return;
    this.active = host;
    if (host.info) this.ready(host, host.info);
    this.mirror(host);
  }

  /** The user opened, closed or selected something: that is the new address. */
  private paneChanged(host: Host, what: 'open' | 'select'): void {
    this.mirror(host);
    const { route } = this;
    if (!route) return;
    const open = host.pane.scene?.openIds ?? [];
    const select = this.main.pane.selected;
    const changes = host === this.main ? { open, select } : { besideOpen: open };
    const other = host === this.main ? this.beside : this.main;
    const synced = other && this.inStep && what === 'open' ? (host === this.main ? { besideOpen: open } : { open }) : {};
    this.context.navigate({ ...route, ...changes, ...synced } as ShownRoute, { replace: what === 'select' });
  }

  /** Outline, details and announcements follow the pane that is in use. */
  private mirror(host: Host): void {
    if (host !== this.active) return;
    const { scene, selected } = host.pane;
    this.outline.update(scene);
    this.outline.select(selected);
    const box = scene?.box(selected) ?? null;
    this.workspace.classList.toggle('has-details', box !== null);
    this.uncover(host, box);
    if (box === this.detailed && (!box || box.item.kind === 'node')) return;
    if (box && box !== this.detailed) this.announcer.textContent = describe(box);
    this.detailed = box;
    this.details.show(box);
  }

  // On a narrow page the details lie over the graph; what they are about should not be under them.
  private uncover(host: Host, box: Box | null): void {
    const sheet = this.right.getBoundingClientRect();
    const over = box !== null && getComputedStyle(this.right).position === 'absolute';
    host.pane.stage.cover(over ? Math.max(0, host.pane.stage.canvas.getBoundingClientRect().bottom - innerHeight + sheet.height) : 0);
    if (over && box !== this.detailed) host.pane.stage.bringIntoView(box.id);
  }

  private chooseInOutline(id: string): void {
    this.active.pane.choose(id);
    this.active.pane.stage.bringIntoView(id);
  }

  private async chooseResult(result: SearchResult): Promise<void> {
    this.workspace.classList.remove('side-open');
    await this.reveal(result.part, result.name, result.kind);
  }

  /** Opens what is around a node or scope, and selects it. */
  private async reveal(part: number, name: string, kind?: 'node' | 'scope'): Promise<void> {
    const found = await this.findTrail(this.activeGraph(), part, name, kind).catch((problem: unknown) => this.complain(problem));
    if (!found) return;
    const { trail, id } = found;
    const { route } = this;
    if (trail.length > mostNested) {
      this.show({ part, open: [], select: name, focus: { kind: 'around', name, hops: 1, direction: 'both' } });
      this.say(`${name} lies in ${formatCount(trail.length)} scopes, too many to open: its neighbours are shown instead.`);
    } else if (route?.view === 'graph' && (route.part !== part || route.focus)) {
      this.show({ part, open: trail, select: id, focus: null });
    } else if (!await this.active.pane.reveal(trail, id)) {
      this.say(`${name} is not among what is drawn of the scope that is now selected.`);
    }
  }

  private async findTrail(graph: string, part: number, name: string, kind?: 'node' | 'scope'): Promise<{ trail: string[]; id: string }> {
    const found = await this.context.api.trail(graph, { part, name, kind });
    // A node with the name of the scope that it is in: see `boxId`.
    const last = name.slice(name.lastIndexOf('/') + 1);
    return { trail: found.trail, id: found.kind === 'node' && found.trail.includes(name) ? `${name}/(${last})` : name };
  }

  // A short link may name what to select and leave out what to open.
  private revealMissing(name: string): void {
    if (this.route?.view === 'graph' && !this.route.focus) void this.reveal(this.route.part, name);
  }

  private async followTensor(route: GraphRoute, tensor: string): Promise<void> {
    try {
      const { part, name } = await this.context.api.locate(route.graph, tensor);
      const found: Partial<GraphRoute> = { tensor: null };
      if (name !== null) {
        const { trail, id } = await this.findTrail(route.graph, part ?? 0, name, 'node');
        Object.assign(found, { part: part ?? 0, open: trail, select: id, focus: null });
      } else this.say(`${tensor} is not in this graph.`);
      if (this.route === route) this.context.navigate({ ...route, ...found }, { replace: true });
    } catch (problem) {
      this.complain(problem);
    }
  }

  private complain(problem: unknown): void {
    if (!isAbort(problem)) this.say(messageOf(problem));
  }

  private showPaths(part: number, to: string): void {
    if (!this.pathStart || this.pathStart.part !== part) this.say('First choose where the paths start, and press "Path from here".');
    else this.show({ part, open: [], select: null, focus: { kind: 'paths', from: this.pathStart.name, to } });
  }

  private enter(part: number): void {
    this.show({ part, open: [], select: null, focus: null });
  }

  private show(changes: Partial<GraphRoute>): void {
    const { route } = this;
    if (route?.view === 'graph') this.context.navigate({ ...route, tensor: null, ...changes });
    else if (route) this.context.navigate(graphRoute(route.one, { open: route.open, ...changes }));
  }

  private drawBanner(): void {
    const { route } = this;
    const focus = route?.view === 'graph' ? route.focus : null;
    const back = element('button', { type: 'button', onclick: () => this.show({ focus: null, open: [], select: null }) }, 'Back to the scopes');
    if (focus?.kind === 'around') {
      const way = { both: 'both ways', inputs: 'to inputs', readers: 'to readers' }[focus.direction];
      this.banner.replaceChildren(element('span', {}, `Around ${focus.name}, ${focus.hops} ${focus.hops === 1 ? 'hop' : 'hops'} ${way}`), back);
    } else if (focus) this.banner.replaceChildren(element('span', {}, `Paths from ${focus.from} to ${focus.to}`), back);
    else if (route?.view === 'diff') {
      this.banner.replaceChildren(element('span', {}, `From ${this.toolbar.nameOf(route.one)} to ${this.toolbar.nameOf(route.other)}`),
        element('button', { type: 'button', onclick: () => this.show({}) }, 'Show one graph only'));
    }
    this.banner.hidden = !focus && route?.view !== 'diff';
  }

  private say(text: string): void {
    document.querySelector('.toast')?.remove();
    const toast = element('div', { class: 'toast card', role: 'status' }, text);
    this.workspace.append(toast);
    clearTimeout(this.noticeTimer);
    this.noticeTimer = window.setTimeout(() => toast.remove(), 6000);
  }

  private key(event: KeyboardEvent): void {
    const typing = event.target instanceof HTMLElement && event.target.matches('input, textarea, select, dialog *');
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/') {
      event.preventDefault();
      this.workspace.classList.add('side-open');
      this.search.focus();
    } else if (event.key === '?') openHelp();
  }

  private activeGraph(): string {
    const { route } = this;
    if (route?.view === 'diff') return route.one;
    return (this.active === this.beside ? route?.beside : route?.graph) ?? '';
  }

  // What was added is only in the other graph.
  private graphOf(box: Box): string {
    return this.route?.view === 'diff' && box.item.change === 'added' ? this.route.other : this.activeGraph();
  }

  private fileName(): string {
    return this.active.info?.label || 'graph';
  }
}

function mainChoice(route: ShownRoute): HostChoice {
  return route.view === 'graph'
    ? { graph: route.graph, other: null, part: route.part, focus: route.focus, tide: route.tide, colour: colourOf(route) }
    : { graph: route.one, other: route.other, part: 0, focus: null, tide: null, colour: '' };
}

// A link from a tide names the tide alone.
function colourOf({ colour, tide }: GraphRoute): string {
  return colour || (tide === null ? '' : 'peak');
}
