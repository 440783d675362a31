// Elements that the views of tides, plans and reports share.
import { formatBytes } from '../amounts';
import { element, type Child } from '../dom';
import type { Share } from './data';

export function button(
  text: string,
  onclick: () => void,
  attributes: Record<string, string | boolean> = {},
): HTMLButtonElement {
  return element('button', { type: 'button', onclick, ...attributes }, text);
}

/** A name to click; a long one is cut at its start, because its end is more specific. */
export function nameButton(name: string, onclick: () => void): HTMLButtonElement {
  return element('button', { type: 'button', class: 'link ending', onclick }, element('bdi', {}, name));
}

/** A section with a heading, and elements opposite of it. */
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
  reason: string;
  fits: boolean | null;
}

export function answerCard({ about, value, reason, fits }: Answer): HTMLElement {
  const mood = fits === null ? '' : fits ? ' fits' : ' exceeds';
  return element(
    'div',
    { class: `answer${mood}` },
    element('div', { class: 'what' }, about),
    element('div', { class: 'value' }, value),
    element('div', { class: 'why' }, reason),
  );
}

/** The answers at the top of a report. */
export function answerGroup(answers: readonly Answer[]): HTMLElement {
  return element('div', { class: 'answers', role: 'group', 'aria-label': 'The answer' }, ...answers.map(answerCard));
}

/** Pairs of a name and a text; a name without a text is left out. */
export function facts(rows: readonly (readonly [string, Node | string | null])[]): HTMLElement {
  const given = rows.flatMap(([name, text]) =>
    text === null ? [] : [element('dt', {}, name), element('dd', {}, text)],
  );
  return element('dl', { class: 'facts' }, ...given);
}

/** How the numbers of a report were found. */
export function provenanceCard(method: string, notes: readonly string[]): HTMLElement {
  return card(
    'How this was found',
    [],
    facts([['method', method], ...notes.map((note) => ['note', note] as const)]),
  );
}

/** A bar for each share, as long as its part of the largest. */
export function shareBars(shares: readonly Share[]): HTMLElement[] {
  const most = Math.max(1, ...shares.map((share) => share.bytes));
  return shares.map(({ label, bytes, parts }) => {
    const track = element(
      'div',
      { class: 'track', 'aria-hidden': 'true' },
      ...parts.map(([colour, part]) => {
        const made = element('div');
        made.style.backgroundColor = colour;
        made.style.width = `${(100 * part) / most}%`;
        return made;
      }),
    );
    return element(
      'div',
      { class: 'amount' },
      element('div', { class: 'label', title: label }, label),
      track,
      element('div', { class: 'size' }, formatBytes(bytes)),
    );
  });
}
