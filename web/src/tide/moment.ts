// The memory in use at the chosen moment, by kind and by layer.
import { escapeUnseen } from '../names';
import { formatBytes, formatCount } from '../amounts';
import { element } from '../dom';
import { nodeAt, sharesByKind, sharesByLayer, type TideData } from './data';
import { button, card, shareBars } from './parts';

const mostLayers = 10;

interface MomentCard {
  element: HTMLElement;
  show(data: TideData, point: number): void;
}

export function createMoment(toPeak: () => void): MomentCard {
  const heading = element('h2', { class: 'moment', 'aria-live': 'polite' });
  const back = button('Back to the peak', toPeak);
  const [kinds, layers] = [element('div', { class: 'by-kind' }), element('div', { class: 'by-layer' })];
  const columns = element(
    'div',
    { class: 'columns' },
    element('div', {}, element('h3', {}, 'By kind'), kinds),
    element('div', {}, element('h3', {}, 'By layer'), layers),
  );
  const made = card('The moment', [], columns);
  made.querySelector('.heading')?.replaceChildren(heading, back);

  function show(data: TideData, point: number): void {
    const peak = data.curve.event[point] === data.peak_event;
    heading.textContent = escapeUnseen(describeMoment(data, point));
    back.hidden = peak;
    kinds.replaceChildren(...shareBars(sharesByKind(data, point)));
    layers.replaceChildren(...shareBars(sharesByLayer(data, point, mostLayers)));
  }
  return { element: made, show };
}

export function describeMoment(data: TideData, point: number): string {
  const event = data.curve.event[point]!;
  if (event === data.peak_event) return `At the peak: ${data.peak_place}`;
  return `${formatBytes(data.curve.bytes[point]!)} in use after event ${formatCount(event)}: ${nodeAt(data.curve, point)}`;
}
