// Times as text, as on the command line.
import { formatCount } from '../amounts';

/** As `format_time` in lowtide.view.reports.plan: "1.23 s", "38.2 ms", "950 µs"; zero is "0". */
export function formatTime(microseconds: number): string {
  if (microseconds < 0.5) return '0';
  const [unit, size] = (
    [
      ['s', 1e6],
      ['ms', 1e3],
    ] as const
  ).find(([, each]) => microseconds >= 0.9995 * each) ?? ['µs', 1];
  const amount = microseconds / size;
  const text = amount >= 99.95 ? formatCount(Math.round(amount)) : String(Number(amount.toPrecision(3)));
  return `${text} ${unit}`;
}

/** A slowdown: "+14%", "+0%", "-3%". */
export function formatSlowdown(slowdown: number): string {
  const percent = Math.round(100 * slowdown);
  return `${percent < 0 ? '-' : '+'}${Math.abs(percent)}%`;
}
