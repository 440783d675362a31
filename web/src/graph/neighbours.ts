// The inputs or readers of a node as buttons, fifty at a time: a node can have ten thousand.
import type { Neighbour } from '../api';
import { countOf, formatBytes, formatCount } from '../amounts';
import { element } from '../dom';
import { showName } from '../names';

const page = 50;

interface NeighbourList {
  title: string;
  all: number;
  from: number;
  neighbours: Neighbour[];
  go(name: string): void;
  turn(from: number): void;
}

export function neighbourSection({ title, all, from, neighbours, go, turn }: NeighbourList): HTMLElement {
  const heading = element('h3', {}, `${title} · ${formatCount(all)}`);
  if (!all) return element('section', {}, heading, element('p', { class: 'hint' }, 'none'));
  return element('section', {}, heading,
    element('ul', { class: 'links' }, ...neighbours.map((neighbour) => element('li', {}, line(neighbour, go)))),
    all > page && element('div', { class: 'pages' },
      element('button', { type: 'button', disabled: from === 0, onclick: () => turn(Math.max(0, from - page)) }, '‹ Previous'),
      element('span', { class: 'hint' }, `${formatCount(from + 1)} to ${formatCount(Math.min(from + page, all))}`),
      element('button', { type: 'button', disabled: from + page >= all, onclick: () => turn(from + page) }, 'Next ›')));
}

function line(neighbour: Neighbour, go: (name: string) => void): HTMLElement {
  const { name, op, control, port, shape, bytes, missing, edges } = neighbour;
  const cut = name.lastIndexOf('/') + 1;
  const notes = [control ? 'control' : '', port ? `:${port}` : '', shape ?? '', bytes ? formatBytes(bytes) : '', (edges ?? 1) > 1 ? countOf(edges ?? 1, 'edge') : ''].filter(Boolean);
  if (missing) {
    return element('span', { class: 'missing', title: name }, element('span', { class: 'name' }, name), element('span', { class: 'count' }, 'not there'));
  }
  return element('button', { type: 'button', title: name, onclick: () => go(name) },
    element('span', { class: 'name' }, showName(name.slice(cut))),
    element('span', { class: 'count' }, op),
    (cut > 0 || notes.length > 0) && element('span', { class: 'where' }, [name.slice(0, Math.max(0, cut - 1)), notes.join(' · ')].filter(Boolean).join('  ·  ')));
}
