// A card for an error: what went wrong, and what to do.
import { ApiError } from './api';
import { element } from './dom';

export function errorCard(problem: unknown, retry?: () => void): HTMLElement {
  const cure = problem instanceof ApiError ? problem.cure : 'Reload the page.';
  return element('div', { class: 'card problem', role: 'alert' },
    element('h2', {}, 'This could not be shown'),
    element('p', {}, messageOf(problem)),
    element('p', { class: 'hint' }, cure),
    retry && element('button', { type: 'button', onclick: retry }, 'Try again'));
}

export function messageOf(problem: unknown): string {
  return problem instanceof Error ? problem.message : String(problem);
}

export function isAbort(problem: unknown): boolean {
  return problem instanceof DOMException && problem.name === 'AbortError';
}
