// The dialog with the keys.
import { element } from './dom';

const keys: [string, string][] = [
  ['← ↑ → ↓', 'select the nearest box in that direction'],
  ['Enter', 'open or close the selected box'],
  ['Escape, Backspace', 'close, or go up to the box around'],
  ['+  −', 'zoom'],
  ['0', 'show everything'],
  ['/', 'search'],
  ['?', 'this help'],
  ['double click', 'open or close a box'],
  ['drag, wheel, pinch', 'move and zoom'],
];

export function openHelp(): void {
  const close = () => dialog.close();
  const dialog = element('dialog', { class: 'help', 'aria-label': 'Keys' },
    element('div', { class: 'heading' }, element('h2', {}, 'Keys'),
      element('button', { type: 'button', class: 'icon', 'aria-label': 'Close', onclick: close }, '×')),
    element('dl', {}, ...keys.flatMap(([key, what]) => [element('dt', {}, element('kbd', {}, key)), element('dd', {}, what)])),
    element('p', { class: 'hint' },
      'Everything has an address: copy it from the browser to come back to the same view. '
      + 'The outline at the side holds the same boxes as a tree, for the keyboard and for screen readers.'));
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
