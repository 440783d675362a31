// Amounts as text, the way lowtide.units writes them.

const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function formatBytes(count: number): string {
  if (count < 0) return `-${formatBytes(-count)}`;
  if (count < 1024) return `${Math.round(count)} B`;
  let size = count;
  let unit = -1;
  do {
    size /= 1024;
    unit += 1;
  } while (size >= 1023.95 && unit < units.length - 1);
  return `${trimZeros(toDigits(size, size < 9.995 ? 2 : 1))} ${units[unit]}`;
}

// A number half-way between two is rounded to the even digit, as in Python; toFixed would take the larger.
function toDigits(value: number, digits: number): string {
  const last = 10 ** digits;
  const halves = 2 ** (digits + 1);
  const halfway = Number.isInteger(value * halves) && !Number.isInteger((value * halves) / 2);
  const floor = Math.floor(value * last);
  return (halfway && floor % 2 === 0 ? floor / last : value).toFixed(digits);
}

/** A change with its sign: "+1.5 KiB", "-97.8 MiB", "0 B". */
export function formatChange(count: number): string {
  return `${count > 0 ? '+' : ''}${formatBytes(count)}`;
}

const grouped = new Intl.NumberFormat('en-US');

export function formatCount(count: number): string {
  return grouped.format(count);
}

/** "1 node", "27,808 nodes". */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** Short enough for a label on a line: 950, 1.2k, 3.4M. */
export function formatShort(count: number): string {
  if (count < 1000) return String(count);
  if (count < 999_500) return `${trimZeros((count / 1000).toFixed(count < 9950 ? 1 : 0))}k`;
  return `${trimZeros((count / 1e6).toFixed(count < 9.95e6 ? 1 : 0))}M`;
}

/** "8 MiB" or "1048576" as bytes; null when it is neither. */
export function parseBytes(text: string): number | null {
  const match = /^\s*([\d.]+)\s*([kmgtp]?)i?b?\s*$/i.exec(text);
  const number = Number(match?.[1]);
  if (!match || !Number.isFinite(number)) return null;
  return Math.round(number * 1024 ** ' kmgtp'.indexOf((match[2] || ' ').toLowerCase()));
}

function trimZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}
