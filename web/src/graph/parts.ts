// The choice between the main graph and the functions of its library.
import type { GraphReady } from '../api';
import { countOf, formatCount } from '../amounts';
import { element } from '../dom';
import { showName } from '../names';

export class PartPicker {
  readonly element: HTMLElement;
  private readonly picker = element('select', { 'aria-label': 'Main graph or function' });
  private readonly more = element('p', { class: 'hint', hidden: true });
  private chosen = 0;

  constructor(choose: (part: number) => void) {
    this.picker.addEventListener('change', () => choose(Number(this.picker.value)));
    this.element = element('div', { class: 'parts', hidden: true }, this.picker, this.more);
  }

  setParts({ parts, parts_total: total }: GraphReady): void {
    this.element.hidden = parts.length < 2;
    this.picker.replaceChildren(...parts.map(({ part, name, nodes }) =>
      element('option', { value: part }, `${part === 0 ? 'Main graph' : showName(name)} · ${countOf(nodes, 'node')}`)));
    const hidden = (total ?? parts.length) - parts.length;
    this.more.hidden = hidden <= 0;
    this.more.textContent = `${formatCount(hidden)} smaller functions are not listed; they open from the nodes that call them.`;
    this.select(this.chosen);
  }

  select(part: number): void {
    this.chosen = part;
    this.picker.value = String(part);
  }
}
