// The view of a tide. Its state is in the address: a choice changes the address, and `update` shows the new state.
import { parseBytes } from '../amounts';
import type { FileEntry } from '../api';
import type { Context, Mount, View } from '../context';
import { element } from '../dom';
import { errorCard, isAbort, messageOf } from '../notice';
import type { Route } from '../route';
import { formatAddress, formatOverlay, parseAddress, type OverlayKey, type TideAddress } from './address';
import { momentOf, nearest, rowsOfTensor, type TideData } from './data';
import { assignLooks, dress, overlayChoices, predictedOverlay, readOverlay, type PlainOverlay } from './overlays';
import { createSheet, type TideSheet } from './sheet';

export const mount: Mount = (container, context) => createView(container, context);

function createView(container: HTMLElement, context: Context): View {
  const root = element('div', { class: 'memory tide-view' });
  container.replaceChildren(root);
  let id: number | null = null;
  let address = parseAddress({});
  let data: TideData | null = null;
  let files: FileEntry[] | null = null;
  let sheet: TideSheet | null = null;
  let loading = new AbortController();
  let looks: ReadonlyMap<string, number> = new Map();
  const overlays = new Map<string, PlainOverlay>();
  const asked = new Set<string>();

  const go = (changes: Partial<TideAddress>, replace = false) =>
    context.navigate({ view: 'tide', id: id!, options: formatAddress({ ...address, ...changes }) }, { replace });

  async function load(next: number): Promise<void> {
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    [id, data, files] = [next, null, null];
    if (!context.standalone) void loadFiles();
    overlays.clear();
    asked.clear();
    sheet?.destroy();
    sheet = null;
    root.setAttribute('aria-busy', 'true');
    root.replaceChildren(element('p', { class: 'hint loading', role: 'status' }, 'Reading the tide …'));
    try {
      const tide = await context.api.report<TideData>('tide', next, signal);
      data = tide;
      sheet = createSheet(context, tide, next, {
        choose: (event, tensor) => go({ at: event, ...(tensor === undefined ? {} : { tensor }) }),
        toPeak: () => go({ at: tide.peak_event }),
        select: (tensor) => go({ tensor }),
        filter: (filter) => go({ filter }, true),
        compare: (over) => go({ over }),
        setBudget: (budget) => go({ budget }),
      });
      root.replaceChildren(sheet.element);
      show();
    } catch (problem) {
      if (!isAbort(problem)) root.replaceChildren(errorCard(problem, () => void load(next)));
    }
    if (!signal.aborted) root.removeAttribute('aria-busy');
  }

  // The files to compare with; the tide itself does not wait for them.
  async function loadFiles(): Promise<void> {
    const { signal } = loading;
    try {
      files = (await context.api.files(signal)).files;
      show();
    } catch (problem) {
      if (!isAbort(problem)) sheet?.say(`The list of files could not be read: ${messageOf(problem)}`);
    }
  }

  // Other curves are read when the address first names them, and drawn as they arrive.
  async function loadOverlay(key: OverlayKey): Promise<void> {
    const name = formatOverlay(key);
    if (!files || asked.has(name)) return;
    asked.add(name);
    const { signal } = loading;
    try {
      overlays.set(name, await readOverlay(context.api, key, files, signal));
      if (!signal.aborted) show();
    } catch (problem) {
      if (!isAbort(problem)) sheet?.say(`${name} could not be read: ${messageOf(problem)}`);
    }
  }

  function show(): void {
    if (!data || !sheet) return;
    address.over.forEach((key) => void loadOverlay(key));
    looks = assignLooks(address.over.map(formatOverlay), looks);
    const rows = address.tensor === null ? [] : rowsOfTensor(data.buffers, address.tensor);
    const drawn = [...looks].flatMap(([key, place]) => (overlays.has(key) ? [dress(overlays.get(key)!, place)] : []));
    sheet.show({
      address,
      point: address.at === null ? momentOf(data, rows) : nearest(data.curve.event, address.at),
      rows,
      overlays: [...predictedOverlay(data), ...drawn],
      budget: (address.budget === null ? null : parseBytes(address.budget)) ?? data.budget_bytes,
      choices: files && overlayChoices(files, id!),
      theme: context.theme(),
    });
  }

  return {
    update(route: Route) {
      if (route.view !== 'tide') return;
      address = parseAddress(route.options);
      if (route.id !== id) void load(route.id);
      else show();
    },
    destroy() {
      loading.abort();
      sheet?.destroy();
      root.remove();
    },
  };
}
