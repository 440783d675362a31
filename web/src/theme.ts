// Light or dark: the system's preference until the user chooses.
import type { Theme } from './context';

const key = 'lowtide-theme';

interface Themes {
  current(): Theme;
  toggle(): void;
}

export function watchTheme(changed: () => void): Themes {
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = readChoice();
  const current = (): Theme => chosen ?? (system.matches ? 'dark' : 'light');
  const apply = () => {
    document.documentElement.dataset.theme = current();
    changed();
  };
  document.documentElement.dataset.theme = current();
  system.addEventListener('change', apply);
  return {
    current,
    toggle() {
      chosen = current() === 'dark' ? 'light' : 'dark';
      keepChoice(chosen);
      apply();
    },
  };
}

// Storage can be forbidden inside a frame; the choice then lasts as long as the page.
function readChoice(): Theme | null {
  try {
    const kept = localStorage.getItem(key);
    return kept === 'light' || kept === 'dark' ? kept : null;
  } catch {
    return null;
  }
}

function keepChoice(choice: Theme): void {
  try {
    localStorage.setItem(key, choice);
  } catch {
    return;
  }
}
