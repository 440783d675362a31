// The page of one tide: the answers, the charts, the tensors, and how the numbers were found.
import { formatBytes, parseBytes } from '../amounts';
import type { Context, Theme } from '../context';
import { element, swatch } from '../dom';
import type { OverlayKey, TideAddress } from './address';
import type { Chart } from './chart';
import { createCurveChart, createSpaceChart, type Shown } from './charts';
import type { Overlay } from './curve';
import type { TideData } from './data';
import { answerCards, methodName, provenanceCard } from './summary';
import { createMoment } from './moment';
import { createPicker, type Choice } from './overlays';
import { answerGroup, card } from './parts';
import { legendOf, saveButtons, type CaptionEntry } from './save';
import { describeFree } from './space';
import { createTensors } from './tensors';

interface SheetState {
  address: TideAddress;
  point: number;
  rows: number[];
  overlays: Overlay[];
  budget: number | null;
  /** Null while the list of files is loading. */
  choices: Choice[] | null;
  theme: Theme;
}

interface SheetActions {
  choose(event: number, tensor?: string): void;
  toPeak(): void;
  select(tensor: string | null): void;
  filter(words: string): void;
  compare(keys: OverlayKey[]): void;
  setBudget(budget: string | null): void;
}

export interface TideSheet {
  element: HTMLElement;
  show(state: SheetState): void;
  /** Show a message below the title, also to screen readers. */
  say(text: string): void;
  destroy(): void;
}

export function createSheet(context: Context, data: TideData, id: number, actions: SheetActions): TideSheet {
  let shown: Shown = { data, point: 0, overlays: [], budget: null, rows: [] };
  let drawnAs = '';
  const picker = createPicker(actions.compare);
  const budget = createBudget(actions.setBudget);
  const message = element('p', { class: 'hint', role: 'status' });
  const answers = answerGroup([]);
  const curve = createCurveChart(() => shown, actions);
  const legend = element('div', { class: 'key' });
  const moment = createMoment(actions.toPeak);
  const tensors = createTensors({
    context,
    tide: () => id,
    select: actions.select,
    choose: actions.choose,
    filter: actions.filter,
  });
  const space = createSpace(data, () => shown, actions);
  const entries = () => legendOf(data, shown.overlays);
  const title = element('h1', {}, data.title, ' ', element('span', { class: 'chip' }, methodName(data)));
  const sheet = element(
    'div',
    { class: 'sheet' },
    element('div', { class: 'top' }, title, element('div', { class: 'controls' }, budget.element, context.standalone ? null : picker.element)),
    message,
    answers,
    card(
      'Memory over the step',
      [
        element('span', { class: 'hint' }, 'Point, or use ← →, to read a moment; click or Enter chooses it'),
        saveButtons(curve, () => ({
          title: `${data.title} · memory over the step`,
          file: `${data.title}-tide`,
          legend: entries(),
        })),
      ],
      curve.element,
      legend,
    ),
    moment.element,
    tensors.element,
    ...(space ? [space.element] : []),
    provenanceCard(data),
  );

  function show(state: SheetState): void {
    shown = { data, point: state.point, overlays: state.overlays, budget: state.budget, rows: state.rows };
    picker.show(state.choices, state.address.over, state.overlays);
    budget.show(state.address.budget ?? (state.budget === null ? '' : formatBytes(state.budget)));
    moment.show(data, state.point);
    tensors.show(data, state.point, state.address.filter, state.address.tensor, state.rows);
    space?.show();
    // Marks are drawn for every choice; the pictures below them only when they change.
    const look = [state.theme, state.budget, ...state.overlays.map((overlay) => overlay.key)].join(' ');
    for (const chart of [curve, space?.chart]) {
      if (look === drawnAs) chart?.mark();
      else chart?.redraw();
    }
    if (look !== drawnAs) {
      answers.replaceChildren(...answerCards(data, state.budget));
      legend.replaceChildren(...entries().map(drawEntry));
    }
    drawnAs = look;
  }
  return {
    element: sheet,
    show,
    say: (text) => {
      message.textContent = text;
    },
    destroy: () => [curve, space?.chart].forEach((chart) => chart?.destroy()),
  };
}

interface SpaceCard {
  element: HTMLElement;
  chart: Chart;
  show(): void;
}

function createSpace(data: TideData, shown: () => Shown, actions: SheetActions): SpaceCard | null {
  const { space } = data;
  if (space === null) return null;
  const chart = createSpaceChart(() => ({ ...shown(), space }), actions);
  const free = element('p', { class: 'hint' });
  const caption = () => ({
    title: `${data.title} · address space`,
    file: `${data.title}-space`,
    legend: legendOf(data, []),
  });
  return {
    chart,
    element: card(
      'Address space',
      [
        element('span', { class: 'hint' }, 'Point to a buffer, or use ↑ ↓; click or Enter selects it'),
        saveButtons(chart, caption),
      ],
      chart.element,
      free,
      element(
        'p',
        { class: 'hint' },
        'Pale is free. Addresses that no buffer of this step covers are folded at the waves.',
      ),
    ),
    show: () => {
      free.textContent = describeFree(data, space, shown().point);
    },
  };
}

function drawEntry({ text, colour, line, dash }: CaptionEntry): HTMLElement {
  const mark = line ? element('span', { class: 'stroke', 'aria-hidden': 'true' }) : swatch(colour);
  if (line) Object.assign(mark.style, { borderTopColor: colour, borderTopStyle: dash ? 'dashed' : 'solid' });
  return element('span', {}, mark, text);
}

function createBudget(setBudget: (budget: string | null) => void): { element: HTMLElement; show(text: string): void } {
  const input = element('input', {
    type: 'text',
    size: 9,
    placeholder: '8GiB',
    spellcheck: 'false',
    autocomplete: 'off',
  });
  input.addEventListener('change', () => {
    const text = input.value.trim();
    const wrong = text !== '' && parseBytes(text) === null;
    input.setAttribute('aria-invalid', String(wrong));
    input.title = wrong ? 'Write an amount of memory such as 8GiB, 512 MiB or 8589934592' : '';
    if (!wrong) setBudget(text || null);
  });
  return {
    element: element('label', { class: 'budget' }, 'Budget', input),
    show: (text) => {
      if (document.activeElement !== input) input.value = text;
    },
  };
}
