// The interface between the page and its views.
import type { Api, Files } from './api';
import type { Route } from './route';

export type Theme = 'light' | 'dark';

export interface Context {
  readonly api: Api;
  /** Null until the list has arrived. */
  files(): Files | null;
  /** The page is one file with its data inlined: there are no other files and no graphs to lead to. */
  readonly standalone: boolean;
  /** Go to an address; `replace` adds no entry to the history, for example while text is typed. */
  navigate(route: Route, options?: { replace?: boolean }): void;
  theme(): Theme;
}

export interface View {
  /** The address or the theme changed; the route is of the kind this view was mounted for. */
  update(route: Route): void;
  destroy(): void;
}

export type Mount = (container: HTMLElement, context: Context) => View;
