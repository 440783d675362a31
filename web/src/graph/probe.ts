// What is drawn, for tests and benchmarks: `window.lowtide`.
import type { Host } from './host';

interface Drawn {
  id: string;
  key: string;
  kind: string;
  label: string;
  x: number;
  y: number;
  width: number;
  height: number;
  count: number;
}

interface Probe {
  drawn(): Drawn[];
  edges(): [from: string, to: string, count: number][];
  state(): object;
  firstDrawing: number | null;
}

declare global {
  interface Window {
    lowtide?: Probe;
  }
}

let drawings = 0;
let firstDrawing: number | null = null;

export function countDrawing(): void {
  drawings += 1;
  firstDrawing ??= performance.now();
  if (window.lowtide) window.lowtide.firstDrawing = firstDrawing;
  document.documentElement.dataset.drawn = String(drawings);
}

export function installProbe(host: () => Host | null): void {
  window.lowtide = { drawn: () => listDrawn(host()), edges: () => listEdges(host()), state: () => describeState(host()), firstDrawing };
}

/** Boxes in CSS pixels of the page. */
function listDrawn(host: Host | null): Drawn[] {
  const stage = host?.pane.stage;
  if (!stage) return [];
  const corner = stage.canvas.getBoundingClientRect();
  return [...stage.geometry.boxes.values()].map(({ box, rectangle }) => {
    const { x, y, width, height } = stage.placeOf(rectangle);
    return { id: box.id, key: box.item.key, kind: box.item.kind, label: box.item.label, x: x + corner.left, y: y + corner.top, width, height, count: box.item.nodes };
  });
}

function listEdges(host: Host | null): [string, string, number][] {
  const geometry = host?.pane.stage.geometry;
  const key = (id: string) => geometry?.boxes.get(id)?.box.item.key ?? id;
  return [...(geometry?.edges.values() ?? [])].flat().map(({ from, to, edge }) => [key(from), key(to), edge[2]]);
}

function describeState(host: Host | null): object {
  const pane = host?.pane;
  return { open: pane?.scene?.openIds ?? [], selected: pane?.selected ?? null, camera: pane?.stage.camera ?? null, boxes: pane?.scene?.count ?? 0 };
}
