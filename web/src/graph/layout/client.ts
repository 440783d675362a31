// The page's side of the layout worker; one worker serves all graphs on the page.
import type { PlacedSheet, Sheet } from './shapes';
import type { LayoutAnswer, LayoutRequest } from './worker';

let worker: Worker | null = null;
let lastId = 0;
const waiting = new Map<number, { resolve(placed: PlacedSheet): void; reject(problem: Error): void }>();

export function layoutInWorker(sheet: Sheet): Promise<PlacedSheet> {
  worker ??= startWorker();
  const request: LayoutRequest = { id: (lastId += 1), sheet };
  return new Promise((resolve, reject) => {
    waiting.set(request.id, { resolve, reject });
    worker?.postMessage(request);
  });
}

/** Start it before it is needed: it loads while the first screen is on its way. */
export function warmUpWorker(): void {
  worker ??= startWorker();
}

function startWorker(): Worker {
  const started = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'layout' });
  started.addEventListener('message', ({ data }: MessageEvent<LayoutAnswer>) => {
    const asked = waiting.get(data.id);
    waiting.delete(data.id);
    if ('placed' in data) asked?.resolve(data.placed);
    else asked?.reject(new Error(`The layout failed: ${data.problem}`));
  });
  started.addEventListener('error', () => {
    for (const asked of waiting.values()) asked.reject(new Error('The layout could not start.'));
    waiting.clear();
    worker = null;
  });
  return started;
}
