// The keys that work on the canvas.
import type { Arrow } from './direction';
import type { Pane } from './pane';

const arrows = new Set(['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight']);

/** True when the key meant something here. */
export function handleKey(event: KeyboardEvent, pane: Pane): boolean {
  if (event.altKey || event.ctrlKey || event.metaKey) return false;
  if (arrows.has(event.key)) {
    if (event.shiftKey && event.key === 'ArrowDown') pane.enter();
    else if (event.shiftKey && event.key === 'ArrowUp') pane.leave();
    else pane.move(event.key as Arrow);
    return true;
  }
  switch (event.key) {
    case 'Enter':
      if (pane.selected !== null) void pane.toggle(pane.selected);
      return true;
    case 'Escape':
    case 'Backspace':
      pane.leave();
      return true;
    case '+':
    case '=':
      pane.stage.zoom(1.25);
      return true;
    case '-':
      pane.stage.zoom(0.8);
      return true;
    case '0':
      pane.stage.fit();
      return true;
    default:
      return false;
  }
}
