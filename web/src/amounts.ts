// Amounts as text, the way lowtide.units writes them.

const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function formatBytes(count: number): string {
  if (count < 1024) return `${Math.round(count)} B`;
  let size = count;
  let unit = -1;
  do {
    size /= 1024;
    unit += 1;
  } while (size >= 1023.95 && unit < units.length - 1);
  return `${trimZeros(size.toFixed(size < 9.995 ? 2 : 1))} ${units[unit]}`;
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
