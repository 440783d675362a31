// How wide text is, measured once for each text and font, and text cut to a width.

export const fontFamily = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

export interface Font {
  size: number;
  weight: number;
}

export type Measure = (text: string, font: Font) => number;

export function fontOf({ size, weight }: Font): string {
  return `${weight} ${size}px ${fontFamily}`;
}

export function createMeasure(): Measure {
  const context = document.createElement('canvas').getContext('2d');
  const widths = new Map<string, number>();
  return (text, font) => {
    const key = `${font.weight} ${font.size} ${text}`;
    const known = widths.get(key);
    if (known !== undefined) return known;
    if (!context) return text.length * font.size * 0.55;
    context.font = fontOf(font);
    const width = context.measureText(text).width;
    if (widths.size > 20_000) widths.clear();
    widths.set(key, width);
    return width;
  };
}

/** The text, or its start and end around an ellipsis: names of nodes differ at the end more often than in the middle. */
export function truncate(text: string, width: number, font: Font, measure: Measure): string {
  if (measure(text, font) <= width) return text;
  // Of a path the parts in the middle go, then the last one: the first tells the node from others, and its op is written below.
  const parts = text.split('/');
  const bare = `${parts[0]}/…/${parts.at(-1)}`;
  if (parts.length > 2 && bare.length < text.length && measure(`${parts[0]}/…/…`, font) <= width) return truncate(bare, width, font, measure);
  const slash = text.lastIndexOf('/');
  const head = slash > 0 ? text.slice(0, slash + 1) : '';
  if (head && measure(`${head}…`, font) <= width) {
    return longest(text.length - slash - 1, (kept) => `${head}${text.slice(slash + 1, slash + 1 + kept)}…`, width, font, measure);
  }
  const whole = head ? head.slice(0, -1) : text;
  return longest(Math.min(whole.length, 80), (kept) => cutMiddle(whole, kept), width, font, measure);
}

/** Texts cut to a width; those that differ stay different, if need be without the beginning that they share. */
export function truncateAll(texts: string[], width: number, font: Font, measure: Measure): string[] {
  const cut = texts.map((text) => truncate(text, width, font, measure));
  const ends = cutAgain(texts, cut, (text) => cutBetween(text, width, font, measure));
  return cutAgain(texts, ends, (text, others) => cutStart(text, sharedStart(others), width, font, measure));
}

/** Those that became equal though they differ are cut in another way. */
function cutAgain(texts: string[], cut: string[], again: (text: string, others: string[]) => string): string[] {
  const alike = new Map<string, Set<string>>();
  cut.forEach((text, position) => alike.set(text, (alike.get(text) ?? new Set()).add(texts[position] ?? '')));
  return cut.map((text, position) => {
    const others = [...(alike.get(text) ?? [])];
    return others.length > 1 ? again(texts[position] ?? '', others) : text;
  });
}

/** The beginning and the end of a path's first part, and the beginning of its last. */
function cutBetween(text: string, width: number, font: Font, measure: Measure): string {
  const parts = text.split('/');
  const [first = '', last = ''] = [parts[0], parts.at(-1)];
  const end = last.length > 9 ? `${last.slice(0, 8)}…` : last;
  const tail = parts.length > 2 ? `/…/${end}` : `/${end}`;
  if (parts.length < 2 || measure(`${first.slice(0, 6)}${tail}`, font) > width) return truncate(text, width, font, measure);
  return longest(first.length, (kept) => `${cutMiddle(first, kept)}${tail}`, width, font, measure);
}

function sharedStart([first = '', ...others]: string[]): number {
  return others.reduce((shared, other) => {
    let length = 0;
    while (length < shared && other[length] === first[length]) length += 1;
    return length;
  }, first.length);
}

function cutStart(text: string, shared: number, width: number, font: Font, measure: Measure): string {
  const tail = `…${text.slice(Math.max(0, shared - 2))}`;
  if (measure(tail, font) <= width) return tail;
  return longest(tail.length, (kept) => `${tail.slice(0, kept)}…`, width, font, measure);
}

/** The longest of the texts that `make` cuts to some length, from none of it to `most`, that is not too wide. */
function longest(most: number, make: (kept: number) => string, width: number, font: Font, measure: Measure): string {
  let low = 0;
  let high = most;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (measure(make(middle), font) <= width) low = middle;
    else high = middle - 1;
  }
  return make(low);
}

function cutMiddle(text: string, kept: number): string {
  if (kept >= text.length) return text;
  const end = Math.floor(kept * 0.4);
  return `${text.slice(0, kept - end)}…${end ? text.slice(-end) : ''}`;
}
