// The data of a training run. `lowtide.view.page_data.training_run` writes it.
import type { Answer } from '../tide/parts';

export interface Checkpoint {
  /** Seconds since 1970, as all times here. */
  time: number;
  steps: number;
  reason: string;
}

export interface Attempt {
  number: number;
  began: number;
  ended: number;
  seconds: number;
  /** What ended it: a key of `causes`. */
  cause: string;
  detail: string | null;
  explanation: string | null;
  changes: string[];
  /** The steps of the checkpoint that it continued from. */
  restored_steps: number | null;
  origin: string;
  checkpoint_count: number;
  checkpoints: Checkpoint[];
  decision: { change: string; reason: string } | null;
}

/** Values by epoch, null where there is none. */
export interface Series {
  name: string;
  colour: string;
  values: (number | null)[];
}

/** The epochs as columns. */
export interface Epochs {
  total: number;
  training: number[];
  epoch: number[];
  attempt: number[];
  steps: number[];
  step_seconds: (number | null)[];
  /** The highest memory in use on the device. */
  device: Series;
  /** What steps are planned for. */
  budget: Series;
  /** All memory of the process. */
  process: Series;
  metrics: Series[];
}

export interface RunData {
  title: string;
  state: string;
  is_running: boolean;
  now: number;
  resume: string | null;
  answers: Answer[];
  causes: Record<string, { words: string; colour: string }>;
  attempts: Attempt[];
  epochs: Epochs;
  notes: { attempt: number; time: number; text: string }[];
  /** What to do about a run that was given up. */
  advice: string[];
  options: [string, string][];
}

/** As `format_duration` in lowtide.progress: "4.2 s", "3 min 05 s", "2 h 07 min". */
export function formatDuration(seconds: number): string {
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (hours) return `${hours} h ${pad(minutes)} min`;
  return minutes ? `${minutes} min ${pad(rest)} s` : `${seconds.toFixed(1)} s`;
}

/** "21 Sep 14:13", in the time of the browser. */
export function formatTime(time: number): string {
  return `${formatDay(time)} ${formatClock(time)}`;
}

export function formatDay(time: number): string {
  const date = new Date(1000 * time);
  return `${date.getDate()} ${months[date.getMonth()]}`;
}

export function formatClock(time: number, withSeconds = false): string {
  const date = new Date(1000 * time);
  const parts = [date.getHours(), date.getMinutes(), ...(withSeconds ? [date.getSeconds()] : [])];
  return parts.map(pad).join(':');
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

function pad(number: number): string {
  return String(number).padStart(2, '0');
}
