// The panel about what is selected.
import type { GroupBorders, NodeDetails } from '../api';
import { countOf, formatBytes, formatCount } from '../amounts';
import { element } from '../dom';
import { showName } from '../names';
import { errorCard, isAbort } from '../notice';
import type { Direction } from '../route';
import { shortDevice } from './colours';
import { copyText } from './copy';
import { neighbourSection } from './neighbours';
import { sleep } from './progress';
import { canOpen, isFold, type Box } from './scene';

interface DetailsHandlers {
  ask(box: Box, from: { inputs: number; readers: number }, signal: AbortSignal): Promise<NodeDetails>;
  askGroup(box: Box, from: { inputs: number; outputs: number }, signal: AbortSignal): Promise<GroupBorders>;
  go(part: number, name: string): void;
  toggle(id: string): void;
  around(part: number, name: string, hops: number, direction: Direction): void;
  pathFrom(part: number, name: string): void;
  pathTo(part: number, name: string): void;
  enter(part: number): void;
  close(): void;
  /** Where a tensor is in the tide that colours the graph. */
  tideAddress(tensor: string): string;
  /** Where paths start, when the user said so. */
  pathStart(): string | null;
}

const patience = 150;

export class Details {
  readonly element = element('div', { class: 'details' });
  private work = new AbortController();
  /** What enters and leaves the group that is shown; a group that is opened or closed is still the same. */
  private borders: { box: Box; place: HTMLElement } | null = null;

  constructor(private readonly handlers: DetailsHandlers) {}

  show(box: Box | null): void {
    if (box && box === this.borders?.box) {
      this.element.replaceChildren(this.heading(box), ...this.groupSections(box), this.borders.place);
      return;
    }
    this.borders = null;
    this.work.abort();
    this.work = new AbortController();
    if (!box) this.element.replaceChildren();
    else if (box.item.kind === 'node') void this.load(box, { inputs: 0, readers: 0 });
    else {
      const place = element('div', {});
      this.borders = { box, place };
      this.element.replaceChildren(this.heading(box), ...this.groupSections(box), place);
      if (box.item.kind !== 'function') void this.loadBorders(box, place, { inputs: 0, outputs: 0 });
    }
  }

  private async loadBorders(box: Box, place: HTMLElement, from: { inputs: number; outputs: number }): Promise<void> {
    const { signal } = this.work;
    try {
      // What is inside the group, if it was opened, is asked for before this.
      await sleep(patience, signal);
      const { inputs, input_count: read, outputs, output_count: written } = await this.handlers.askGroup(box, from, signal);
      const go = (name: string) => this.handlers.go(box.sheet.screen.part, name);
      place.replaceChildren(
        neighbourSection({
          title: 'Inputs', all: read, from: from.inputs, neighbours: inputs, go,
          turn: (start) => void this.loadBorders(box, place, { ...from, inputs: start }),
        }),
        neighbourSection({
          title: 'Outputs', all: written, from: from.outputs, neighbours: outputs, go,
          turn: (start) => void this.loadBorders(box, place, { ...from, outputs: start }),
        }));
    } catch (problem) {
      if (!isAbort(problem)) place.replaceChildren(errorCard(problem));
    }
  }

  private async load(box: Box, from: { inputs: number; readers: number }): Promise<void> {
    const { signal } = this.work;
    try {
      const details = await this.handlers.ask(box, from, signal);
      const scrolled = this.element.scrollTop;
      this.element.replaceChildren(this.heading(box), ...this.nodeSections(box, details, from));
      if (from.inputs || from.readers) this.element.scrollTop = scrolled;
    } catch (problem) {
      if (!isAbort(problem)) this.element.replaceChildren(this.heading(box), errorCard(problem));
    }
  }

  private heading(box: Box): HTMLElement {
    const { item } = box;
    return element('div', { class: 'subject' },
      element('div', { class: 'heading' },
        element('h2', {}, showName(item.label || item.key)),
        element('button', { type: 'button', class: 'icon close', 'aria-label': 'Close details', onclick: () => this.handlers.close() }, '×')),
      element('p', { class: 'hint path' }, showName(item.key)),
      element('div', { class: 'actions' },
        canOpen(item) && button(box.inner ? 'Close' : 'Open', () => this.handlers.toggle(box.id), 'primary'),
        copyButton('Copy name', () => item.key),
        copyButton('Copy link', () => location.href)));
  }

  private groupSections(box: Box): HTMLElement[] {
    const { item } = box;
    return [
      element('section', {}, facts([
        ['Holds', countOf(item.nodes, 'node')], ['Members', isFold(item) && item.members ? formatCount(item.members) : null],
        ['Kind', item.kind], ['Op', item.op ?? null], ['Main op', item.op ? null : item.main_op ?? null], ['Output bytes', item.bytes === null ? null : formatBytes(item.bytes)],
        ['Phase', item.phase ?? null], ['Device', item.device ? shortDevice(item.device) : null],
        ['Change', item.change ?? null],
      ])),
      ...(box.inner ? [element('section', {}, element('p', { class: 'hint' }, `${countOf(box.inner.boxes.length, 'item')} shown inside.`))] : []),
    ];
  }

  private nodeSections(box: Box, details: NodeDetails, from: { inputs: number; readers: number }): (HTMLElement | string)[] {
    const { part } = details;
    const go = (name: string) => this.handlers.go(part, name);
    return [
      element('section', {}, facts([
        ['Op', details.op], ['Phase', details.phase], ['Device', details.device || 'none given'],
        ['Scope', details.scope || 'the root'], ['Position in the file', formatCount(details.position)],
        ['Size in the file', formatBytes(details.bytes_in_file)], ['Change', box.item.change ?? null],
      ])),
      outputSection(details),
      tideSection(details.tide, (tensor) => this.handlers.tideAddress(tensor)),
      callSection(details, (called) => this.handlers.enter(called)),
      this.walkSection(part, details.name),
      neighbourSection({
        title: 'Inputs', all: details.input_count, from: from.inputs, neighbours: details.inputs, go,
        turn: (start) => void this.load(box, { ...from, inputs: start }),
      }),
      neighbourSection({
        title: 'Readers', all: details.reader_count, from: from.readers, neighbours: details.readers, go,
        turn: (start) => void this.load(box, { ...from, readers: start }),
      }),
      attributeSection(details),
    ].filter((section) => section !== null);
  }

  private walkSection(part: number, name: string): HTMLElement {
    const hops = element('select', { 'aria-label': 'How many hops' }, ...[1, 2, 3, 4].map((count) => element('option', { value: count, selected: count === 2 }, countOf(count, 'hop'))));
    const direction = element('select', { 'aria-label': 'Which way' },
      element('option', { value: 'both' }, 'both ways'), element('option', { value: 'inputs' }, 'to inputs'), element('option', { value: 'readers' }, 'to readers'));
    const start = this.handlers.pathStart();
    return element('section', {}, element('h3', {}, 'Walk from here'),
      element('div', { class: 'actions' }, hops, direction,
        button('Around this node', () => this.handlers.around(part, name, Number(hops.value), direction.value as Direction))),
      element('div', { class: 'actions' },
        button('Path from here', () => this.handlers.pathFrom(part, name)),
        button('Path to here', () => this.handlers.pathTo(part, name)),
        button('Open in scope', () => this.handlers.go(part, name))),
      start !== null && element('p', { class: 'hint path' }, `Paths start at ${start}`));
  }
}

function button(label: string, onclick: () => void, kind = ''): HTMLElement {
  return element('button', { type: 'button', class: kind || null, onclick }, label);
}

function copyButton(label: string, text: () => string): HTMLElement {
  const made = element('button', { type: 'button' }, label);
  made.addEventListener('click', () => void copyText(text()).then((done) => {
    made.textContent = done ? 'Copied' : 'Not allowed';
    setTimeout(() => (made.textContent = label), 1200);
  }));
  return made;
}

function facts(pairs: [string, string | null][]): HTMLElement {
  return element('dl', {}, ...pairs.flatMap(([name, value]) => (value === null ? [] : [element('dt', {}, name), element('dd', {}, value)])));
}

function outputSection({ outputs }: NodeDetails): HTMLElement | null {
  if (!outputs.length) return null;
  const cells = outputs.map(({ port, dtype, shape, bytes }) => element('tr', {},
    element('td', {}, String(port)), element('td', {}, dtype ?? 'unknown'), element('td', {}, formatShape(shape)),
    element('td', { class: 'number' }, bytes === null ? 'unknown' : formatBytes(bytes))));
  return element('section', {}, element('h3', {}, 'Outputs'), element('div', { class: 'scroll' }, element('table', {},
    element('thead', {}, element('tr', {}, ...['', 'Dtype', 'Shape', 'Bytes'].map((name) => element('th', { scope: 'col', class: name === 'Bytes' ? 'number' : null }, name)))),
    element('tbody', {}, ...cells))));
}

function formatShape(shape: (number | null)[] | null): string {
  if (shape === null) return 'unknown';
  return shape.length ? shape.map((size) => (size === null || size < 0 ? '?' : String(size))).join('×') : 'scalar';
}

function attributeSection({ attributes }: NodeDetails): HTMLElement | null {
  if (!attributes.length) return null;
  return element('section', {}, element('h3', {}, `Attributes · ${formatCount(attributes.length)}`),
    element('dl', { class: 'attributes' }, ...attributes.flatMap(({ name, text, bytes, folded }) => [
      element('dt', {}, name),
      element('dd', {}, text, folded && bytes !== undefined && element('span', { class: 'hint' }, ` ${formatBytes(bytes)}, not loaded`)),
    ])));
}

function callSection({ calls }: NodeDetails, enter: (part: number) => void): HTMLElement | null {
  if (!calls.length) return null;
  return element('section', {}, element('h3', {}, 'Calls'), element('ul', { class: 'links' }, ...calls.map(({ part, name }) =>
    element('li', {}, element('button', { type: 'button', onclick: () => enter(part) },
      element('span', { class: 'name' }, name), element('span', { class: 'count' }, 'enter'))))));
}

function tideSection(tide: NodeDetails['tide'], addressOf: (tensor: string) => string): HTMLElement | null {
  if (!tide) return null;
  const left = tide.tensor_count - tide.tensors.length;
  return element('section', {}, element('h3', {}, 'In the tide'),
    facts([['At the peak', formatBytes(tide.bytes_at_peak)], ['Allocated', formatBytes(tide.bytes)]]),
    element('ul', { class: 'links' }, ...tide.tensors.map(({ name, bytes, kind, born, died, at_peak: atPeak }) =>
      element('li', {}, element('a', { href: addressOf(name), title: name },
        element('span', { class: 'name' }, name.slice(name.lastIndexOf('/') + 1)),
        element('span', { class: 'count' }, formatBytes(bytes)),
        element('span', { class: 'where' }, `${kind} · events ${formatCount(born)} to ${formatCount(died)}${atPeak ? ' · at the peak' : ''}`))))),
    left > 0 && element('p', { class: 'hint' }, `${formatCount(left)} smaller ones are not listed.`));
}
