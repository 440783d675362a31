// Other curves over a tide: the available ones, loading them, and the list to choose from.
import { formatBytes } from '../amounts';
import type { Api, FileEntry } from '../api';
import { element, swatch } from '../dom';
import type { PlanData } from '../plan/data';
import { formatOverlay, type OverlayKey } from './address';
import type { Overlay } from './curve';
import type { TideData } from './data';
import { button } from './parts';

// Distinguished by colour and by dashes; none has the colour of a kind of memory.
const looks: readonly (readonly [colour: string, dash: readonly number[] | null])[] = [
  ['#d6336c', null],
  ['#1c7ed6', [8, 4]],
  ['#0ca678', [2, 3]],
  ['#ae3ec9', [10, 3, 2, 3]],
  ['#f08c00', [5, 3]],
  ['#748ffc', [1, 4]],
];
const mostOverlays = looks.length;

export interface Choice {
  key: OverlayKey;
  label: string;
  about: string;
}

/** All curves that can be compared with a tide: the other tides, and each plan before and after. */
export function overlayChoices(files: FileEntry[], tide: number): Choice[] {
  return files.flatMap((file): Choice[] => {
    if (file.kind === 'tide' && file.id !== tide) {
      const peak = file.peak_bytes === undefined ? '' : `peak ${formatBytes(file.peak_bytes)}`;
      return [
        {
          key: { id: file.id, curve: null },
          label: file.path,
          about: [file.title, file.method, peak].filter(Boolean).join(' · '),
        },
      ];
    }
    if (file.kind !== 'plan') return [];
    return (['before', 'after'] as const).map((curve) => ({
      key: { id: file.id, curve },
      label: `${file.path}, ${curve}`,
      about: file.title ?? 'plan',
    }));
  });
}

/** A curve before it gets a colour. */
export type PlainOverlay = Omit<Overlay, 'colour' | 'dash'>;

export async function readOverlay(
  api: Api,
  key: OverlayKey,
  files: FileEntry[],
  signal: AbortSignal,
): Promise<PlainOverlay> {
  const file = files.find((each) => each.id === key.id);
  const label = [file?.path ?? String(key.id), key.curve].filter(Boolean).join(', ');
  const name = { key: formatOverlay(key), label };
  if (key.curve !== null || file?.kind === 'plan') {
    const { curves } = (await api.report<PlanData>('plan', key.id, signal)).curves;
    // A plan that changes nothing has one curve, for before and after.
    const curve = curves.find((each) => each.name === key.curve) ?? curves[curves.length - 1]!;
    return { ...name, peakBytes: curve.peak_bytes, peakEvent: curve.peak_event, curve };
  }
  const data = await api.report<TideData>('tide', key.id, signal);
  return { ...name, peakBytes: data.peak_bytes, peakEvent: data.peak_event, curve: data.curve };
}

/** A key keeps its look as long as it is chosen; a new one gets the first free look. */
export function assignLooks(keys: readonly string[], before: ReadonlyMap<string, number>): Map<string, number> {
  const places = new Map(keys.flatMap((key) => (before.has(key) ? [[key, before.get(key)!] as const] : [])));
  for (const key of keys) {
    const taken = new Set(places.values());
    if (!places.has(key))
      places.set(
        key,
        looks.findIndex((_, place) => !taken.has(place)),
      );
  }
  return places;
}

export function dress(overlay: PlainOverlay, place: number): Overlay {
  const [colour, dash] = looks[place] ?? looks[looks.length - 1]!;
  return { ...overlay, colour, dash };
}

/** The prediction of a recorded tide, if known. */
export function predictedOverlay({ predicted }: TideData): Overlay[] {
  if (predicted === null) return [];
  return [
    {
      key: 'predicted',
      label: 'predicted',
      colour: '#5c717b',
      dash: [5, 3],
      peakBytes: predicted.peak_bytes,
      peakEvent: null,
      curve: predicted,
    },
  ];
}

interface Picker {
  element: HTMLElement;
  show(choices: Choice[] | null, chosen: OverlayKey[], overlays: Overlay[]): void;
}

/** A list of checkboxes behind a button. */
export function createPicker(choose: (keys: OverlayKey[]) => void): Picker {
  const list = element('ul', { class: 'choices' });
  const summary = element('summary', {}, 'Compare');
  const details = element('details', { class: 'compare' }, summary, element('div', { class: 'panel' }, list));
  const close = (event: Event) => {
    if (event instanceof KeyboardEvent ? event.key === 'Escape' : !details.contains(event.target as Node))
      details.open = false;
  };
  details.addEventListener('keydown', close);
  details.addEventListener('toggle', () => {
    if (details.open) document.addEventListener('pointerdown', close);
    else document.removeEventListener('pointerdown', close);
  });

  function show(choices: Choice[] | null, chosen: OverlayKey[], overlays: Overlay[]): void {
    const keys = chosen.map(formatOverlay);
    summary.textContent = keys.length ? `Compare (${keys.length})` : 'Compare';
    const rows = (choices ?? []).map(({ key, label, about }) => {
      const name = formatOverlay(key);
      const overlay = overlays.find((each) => each.key === name);
      const box = element('input', {
        type: 'checkbox',
        checked: keys.includes(name),
        disabled: !keys.includes(name) && keys.length >= mostOverlays,
        onchange: () => choose(box.checked ? [...chosen, key] : chosen.filter((each) => formatOverlay(each) !== name)),
      });
      return element(
        'li',
        {},
        element(
          'label',
          {},
          box,
          overlay ? swatch(overlay.colour) : null,
          element('span', {}, element('b', {}, label), element('small', {}, about)),
        ),
      );
    });
    const focused = list.contains(document.activeElement)
      ? [...list.querySelectorAll('input')].indexOf(document.activeElement as HTMLInputElement)
      : -1;
    list.replaceChildren(
      ...(rows.length
        ? rows
        : [
            element(
              'li',
              { class: 'hint' },
              choices ? 'There is no other tide and no plan among these files.' : 'Loading the list …',
            ),
          ]),
    );
    if (keys.length)
      list.append(
        element(
          'li',
          {},
          button('Clear', () => choose([])),
        ),
      );
    list.querySelectorAll('input')[focused]?.focus();
  }
  return { element: details, show };
}
