// Waits until a graph's index is ready, and shows meanwhile how far it is.
import type { Api, GraphBuilding, GraphReady } from '../api';
import { ApiError } from '../api';
import { countOf } from '../amounts';
import { element } from '../dom';

const pollTime = 300;

/** Resolves when the index is ready; until then `report` gets a card. Throws the error of the server if it failed. */
export async function waitUntilReady(api: Api, graph: string, report: (card: HTMLElement) => void, signal: AbortSignal): Promise<GraphReady> {
  for (;;) {
    const info = await api.graph(graph, signal);
    if (info.state === 'ready') return info;
    if (info.state === 'failed') throw new ApiError(info.error, info.cure);
    report(progressCard(info));
    await sleep(pollTime, signal);
  }
}

function progressCard({ state, progress, nodes, stage }: GraphBuilding): HTMLElement {
  return element('div', { class: 'card building', role: 'status' },
    element('h2', {}, state === 'waiting' ? 'Waiting for another index to be built' : 'Building the index'),
    element('progress', { max: 1, value: progress, 'aria-label': 'How far the index is' }),
    element('p', { class: 'hint' }, [stage, countOf(nodes, 'node'), progress === null ? '' : `${Math.round(100 * progress)} %`].filter(Boolean).join(' · ')));
}

export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(new DOMException('left', 'AbortError'));
    }, { once: true });
  });
}
