// The time axis of attempts, on which long pauses between them are shortened.
import { formatClock, formatDay } from './data';

interface Span {
  began: number;
  ended: number;
}

export interface Pause extends Span {
  /** Where it is on the axis, from 0 to 1. */
  low: number;
  high: number;
}

export interface TimeScale {
  /** Where a time is on the axis, from 0 to 1. */
  at(time: number): number;
  /** The pauses that are shortened. */
  pauses: Pause[];
  ticks: { share: number; text: string }[];
}

// A pause that is longer than the first share of the time of all attempts is drawn as long as the second.
const longPause = 0.15;
const drawnPause = 0.05;
const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;
const steps = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((count) => count * minute),
  ...[1, 2, 3, 6, 12].map((count) => count * hour),
  ...[1, 2, 5, 10, 30, 100].map((count) => count * day),
];

export function timeScale(attempts: readonly Span[], mostTicks: number): TimeScale {
  const spans = merge(attempts);
  const busy = spans.reduce((total, { began, ended }) => total + ended - began, 0);
  // For each time of a corner, the length of the axis up to it.
  const times: number[] = [];
  const lengths: number[] = [];
  const pauses: Span[] = [];
  let length = 0;
  for (const { began, ended } of spans) {
    if (times.length) {
      const pause = began - times[times.length - 1]!;
      const isLong = pause > longPause * busy;
      if (isLong) pauses.push({ began: began - pause, ended: began });
      length += isLong ? drawnPause * busy : pause;
    }
    times.push(began, ended);
    lengths.push(length, (length += ended - began));
  }
  const total = length || 1;
  const at = (time: number) => interpolate(times, lengths, time) / total;
  return {
    at,
    pauses: pauses.map((pause) => ({ ...pause, low: at(pause.began), high: at(pause.ended) })),
    ticks: spans.length ? ticksOf(times[0]!, times[times.length - 1]!, total, pauses, at, mostTicks) : [],
  };
}

/** The times of attempts that overlap are one. */
function merge(attempts: readonly Span[]): Span[] {
  const merged: Span[] = [];
  for (const { began, ended } of [...attempts].sort((one, other) => one.began - other.began)) {
    const last = merged[merged.length - 1];
    if (last && began <= last.ended) last.ended = Math.max(last.ended, ended);
    else merged.push({ began, ended: Math.max(began, ended) });
  }
  return merged;
}

function interpolate(times: readonly number[], lengths: readonly number[], time: number): number {
  const next = times.findIndex((each) => each >= time);
  if (next <= 0) return next === 0 ? 0 : (lengths[lengths.length - 1] ?? 0);
  const [from, to] = [times[next - 1]!, times[next]!];
  const share = to > from ? (time - from) / (to - from) : 1;
  return lengths[next - 1]! + share * (lengths[next]! - lengths[next - 1]!);
}

/** The start, the ends of long pauses, and round times of day; each with the day where that has changed. */
function ticksOf(
  first: number,
  last: number,
  total: number,
  pauses: readonly Span[],
  at: (time: number) => number,
  most: number,
): TimeScale['ticks'] {
  const step = steps.find((each) => total / each <= most) ?? Math.ceil(total / most / day) * day;
  const chosen = [first];
  // The text of a time with its day is longer, and the last text must not reach beyond the end.
  const add = (time: number) => {
    const isFree = chosen.every((other) => Math.abs(at(time) - at(other)) >= 1 / most);
    if (isFree && at(time) <= 1 - 0.5 / most) chosen.push(time);
  };
  pauses.forEach(({ ended }) => add(ended));
  for (let time = nextRound(first, step); time <= last; ) {
    const cut = pauses.find(({ began, ended }) => began < time && time < ended);
    if (!cut) add(time);
    time = nextRound(cut ? cut.ended : time, step);
  }
  chosen.sort((one, other) => one - other);
  return chosen.map((time, index) => {
    const isNewDay = index === 0 || formatDay(time) !== formatDay(chosen[index - 1]!);
    const clock = step < day ? formatClock(time, step < minute) : '';
    return { share: at(time), text: [isNewDay || !clock ? formatDay(time) : '', clock].filter(Boolean).join(' ') };
  });
}

/** The first multiple of a step after a time, in the time of the browser. */
function nextRound(time: number, step: number): number {
  const offset = 60 * new Date(1000 * time).getTimezoneOffset();
  return (Math.floor((time - offset) / step) + 1) * step + offset;
}
