// The attempts of a run on a time axis: bars with checkpoints, and between them what was changed.
import { countOf, formatCount } from '../amounts';
import { element, swatch } from '../dom';
import { card } from '../tide/parts';
import { formatDuration, formatTime, type Attempt, type RunData } from './data';
import { timeScale, type TimeScale } from './scale';

const mostTicks = 6;
/** Lists of more attempts than this scroll by themselves. */
export const manyAttempts = 10;

export function timelineCard(data: RunData): HTMLElement | null {
  const { attempts, causes } = data;
  if (!attempts.length) return null;
  const scale = timeScale(attempts, mostTicks);
  const rows = attempts.flatMap((attempt, index) => [row(data, attempt, scale), between(attempt, attempts[index + 1])]);
  const axis = element('div', { class: 'row axis', 'aria-hidden': 'true' }, element('div'), axisTrack(scale));
  const legend = Object.values(causes).map(({ words, colour }) => element('span', {}, swatch(colour), words));
  const marks = [
    ...(attempts.some(({ checkpoint_count: count }) => count) ? ['│ checkpoint'] : []),
    ...(attempts.some(({ restored_steps: steps }) => steps !== null) ? ['↺ continued from a checkpoint'] : []),
  ];
  const hint = scale.pauses.length ? `${countOf(scale.pauses.length, 'pause')} drawn shorter` : '';
  return card(
    'Attempts over time',
    [element('span', { class: 'hint' }, hint)],
    element(
      'div',
      { class: `timeline${attempts.length > manyAttempts ? ' scroll tall' : ''}` },
      axis,
      element('ol', { 'aria-label': 'Attempts' }, ...rows),
    ),
    element('div', { class: 'key' }, ...legend, ...marks.map((text) => element('span', {}, text))),
  );
}

function axisTrack({ ticks }: TimeScale): HTMLElement {
  const labels = ticks.map(({ share, text }) => placed(element('span', {}, text), share));
  return element('div', { class: 'track' }, ...labels);
}

function row({ causes }: RunData, attempt: Attempt, scale: TimeScale): HTMLElement {
  const { number, cause, began, ended, seconds, origin, restored_steps: restored } = attempt;
  const words = causes[cause]?.words ?? cause;
  const from = restored === null ? '' : `, from ${origin}`;
  const label = element(
    'div',
    { class: 'label' },
    element('b', {}, `Attempt ${number}`),
    ` ${words}`,
    element('span', { class: 'hint' }, `${formatDuration(seconds)}${from}`),
  );
  const bar = placed(element('div', { class: 'bar-of-attempt', title: describe(attempt, words) }), scale.at(began));
  bar.style.width = `${100 * (scale.at(ended) - scale.at(began))}%`;
  bar.style.backgroundColor = causes[cause]?.colour ?? '';
  const mark = placed(element('div', { class: 'restored' }, '↺'), scale.at(began));
  const ticks = attempt.checkpoints.map(({ time, steps, reason }) =>
    placed(element('div', { class: 'tick', title: `checkpoint of step ${formatCount(steps)}: ${reason}` }), scale.at(time)),
  );
  const track = element(
    'div',
    { class: 'track', 'aria-hidden': 'true' },
    ...scale.pauses.map(pauseBand),
    restored === null ? null : mark,
    bar,
    ...ticks,
  );
  return element('li', { class: 'row' }, label, track);
}

function describe({ number, began, seconds, checkpoint_count: count, detail }: Attempt, words: string): string {
  const parts = [formatTime(began), formatDuration(seconds), countOf(count, 'checkpoint'), detail ?? words];
  return `attempt ${number}: ${parts.join(', ')}`;
}

/** What was changed for the next attempt, or how long it took until the run was continued. */
function between(attempt: Attempt, next: Attempt | undefined): HTMLElement | null {
  const { decision, ended } = attempt;
  if (decision) {
    return element('li', { class: 'between' }, `→ ${decision.change}`, element('span', { class: 'hint' }, `: ${decision.reason}`));
  }
  return next ? element('li', { class: 'between' }, `→ continued after ${formatDuration(next.began - ended)}`) : null;
}

function pauseBand({ low, high, began, ended }: TimeScale['pauses'][number]): HTMLElement {
  const band = placed(element('div', { class: 'pause', title: `pause of ${formatDuration(ended - began)}` }), low);
  band.style.width = `${100 * (high - low)}%`;
  return band;
}

function placed(made: HTMLElement, share: number): HTMLElement {
  made.style.left = `${100 * share}%`;
  return made;
}
