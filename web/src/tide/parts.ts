// Parts that the views of tides and plans are made of.
import { element } from '../dom';

type Child = Node | string | null;

export function button(
  text: string,
  onclick: () => void,
  attributes: Record<string, string | boolean> = {},
): HTMLButtonElement {
  return element('button', { type: 'button', onclick, ...attributes }, text);
}

/** A name to click. Where there is no room for all of it its end stays, which says most. */
export function nameButton(name: string, onclick: () => void): HTMLButtonElement {
  return element('button', { type: 'button', class: 'link ending', onclick }, element('bdi', {}, name));
}

/** A part of the page with a heading, and what stands opposite of it. */
export function card(title: string, beside: Child[], ...content: Child[]): HTMLElement {
  const heading = element(
    'div',
    { class: 'heading' },
    element('h2', {}, title),
    element('div', { class: 'beside' }, ...beside),
  );
  return element('section', { class: 'card', 'aria-label': title }, heading, ...content);
}

export interface Answer {
  about: string;
  value: string;
  grounds: string;
  fits: boolean | null;
}

export function answerCard({ about, value, grounds, fits }: Answer): HTMLElement {
  const mood = fits === null ? '' : fits ? ' fits' : ' exceeds';
  return element(
    'div',
    { class: `answer${mood}` },
    element('div', { class: 'what' }, about),
    element('div', { class: 'value' }, value),
    element('div', { class: 'why' }, grounds),
  );
}

/** Names and texts side by side; those without a text are left out. */
export function facts(rows: readonly (readonly [string, Node | string | null])[]): HTMLElement {
  const given = rows.flatMap(([name, text]) =>
    text === null ? [] : [element('dt', {}, name), element('dd', {}, text)],
  );
  return element('dl', { class: 'facts' }, ...given);
}
