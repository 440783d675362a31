// Where screens come from: the scopes of a graph, a neighbourhood in it, or the difference of two.
import type { Api, Item, Part, Screen } from '../api';
import type { Focus } from '../route';
import { isTideColour } from './colours';
import { splitKey, type Box, type Inside } from './scene';

export interface Source {
  /** The nodes around or between which others are shown. */
  centres: string[];
  root(signal: AbortSignal): Promise<Screen>;
  inside(box: Box, signal: AbortSignal): Promise<Inside>;
}

export interface GraphChoice {
  graph: string;
  part: number;
  focus: Focus | null;
  tide: number | null;
  colour: string;
}

export function graphSource(api: Api, choice: GraphChoice, parts: () => Part[]): Source {
  const shade = { tide: choice.tide, colour: choice.tide !== null && isTideColour(choice.colour) ? choice.colour : '' };
  const screen = (part: number, key: string, signal: AbortSignal) =>
    api.screen(choice.graph, { part, ...splitKey(key), ...shade }, signal);
  return {
    centres: centresOf(choice.focus),
    root(signal) {
      const { focus, part, graph } = choice;
      if (focus?.kind === 'around') {
        const { name, hops, direction } = focus;
        return api.around(graph, { part, name, hops, direction, ...shade }, signal);
      }
      if (focus?.kind === 'paths') return api.paths(graph, { part, from: focus.from, to: focus.to, ...shade }, signal);
      return screen(part, '', signal);
    },
    async inside(box, signal) {
      const [called, ...others] = box.item.calls ?? [];
      if (called === undefined) return { screen: await screen(box.sheet.screen.part, box.item.key, signal), enters: false };
      if (others.length) return { screen: listFunctions(box, parts()), enters: false };
      return { screen: await screen(called, '', signal), enters: true };
    },
  };
}

function centresOf(focus: Focus | null): string[] {
  if (focus?.kind === 'around') return [focus.name];
  return focus ? [focus.from, focus.to] : [];
}

export function diffSource(api: Api, one: string, other: string): Source {
  const screen = (key: string, signal: AbortSignal) => api.diff(one, other, splitKey(key), signal);
  return {
    centres: [],
    root: (signal) => screen('', signal),
    inside: async (box, signal) => ({ screen: await screen(box.item.key, signal), enters: false }),
  };
}

/** A node that calls several functions (the branches of an If, a loop's test and body) opens to a choice of them. */
function listFunctions(box: Box, parts: Part[]): Screen {
  const known = new Map(parts.map((part) => [part.part, part]));
  const items = (box.item.calls ?? []).map((part): Item => ({
    key: `${box.item.key}→${part}`, kind: 'function', label: known.get(part)?.name ?? `function ${part}`,
    nodes: known.get(part)?.nodes ?? 0, bytes: null, phase: box.item.phase ?? null, calls: [part],
  }));
  return {
    part: box.sheet.screen.part, path: box.item.key, fold: '', title: box.item.label,
    nodes: items.reduce((sum, item) => sum + item.nodes, 0), children: items.length, items,
    edges: [], incoming: [], outgoing: [], hidden_items: 0, hidden_edges: 0,
  };
}
