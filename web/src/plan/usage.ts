// How to run the planned step: lines of code to copy.
import { element } from '../dom';
import { copyText } from '../graph/copy';
import { button, card } from '../tide/parts';
import type { PlanData } from './data';

export function usageCard(data: PlanData): HTMLElement | null {
  if (!data.usage.length) return null;
  return card('How to use it', [], ...data.usage.map(({ code, purpose }) => usageLine(code, purpose)));
}

/** A line of code with what it is for, and a button that copies it. */
export function usageLine(code: string, purpose: string): HTMLElement {
  const parts = [element('code', {}, code), element('span', { class: 'hint' }, purpose), copyButton(code)];
  return element('div', { class: 'usage' }, ...parts);
}

function copyButton(code: string): HTMLElement {
  const made = button('Copy', () => void copy(), { 'aria-label': `Copy ${code}`, 'aria-live': 'polite' });
  const copy = async () => {
    made.textContent = (await copyText(code)) ? 'Copied' : 'Not allowed';
    setTimeout(() => {
      made.textContent = 'Copy';
    }, 2000);
  };
  return made;
}
