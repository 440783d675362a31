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
export function truncateAll(given: string[], width: number, font: Font, measure: Measure): string[] {
  const texts = withoutShared(given, width, (text) => measure(text, font));
  const cut = texts.map((text) => truncate(text, width, font, measure));
  const ends = cutAgain(texts, cut, (text) => cutBetween(text, width, font, measure));
  return cutAgain(texts, ends, (text, others) => cutShared(text, others, width, font, measure));
}

// Shorter beginnings and ends stay: the ellipsis takes room too.
const leastShared = 4;
const separators = /[_.:-]/;

/** Long names that begin alike, without what all of them share at both ends, unless that leaves little; paths stay as they are. */
function withoutShared(texts: string[], width: number, widthOf: (text: string) => number): string[] {
  const groups = new Map<string, Set<string>>();
  for (const text of texts) {
    const first = text.split(separators, 1)[0] ?? '';
    if (!text.includes('/') && widthOf(text) > width) groups.set(first, (groups.get(first) ?? new Set()).add(text));
  }
  const found = [...groups.values()].filter(({ size }) => size > 1).map((group) => withoutEnds([...group]));
  const cut = new Map(found.filter((rests) => [...rests.values()].some((rest) => widthOf(rest) > width / 2)).flatMap((rests) => [...rests]));
  const alike = new Map<string, number>();
  for (const text of cut.values()) alike.set(text, (alike.get(text) ?? 0) + 1);
  return texts.map((text) => {
    const rest = cut.get(text);
    return rest !== undefined && alike.get(rest) === 1 ? rest : text;
  });
}

function withoutEnds(texts: string[]): Map<string, string> {
  const [begin, end] = sharedEnds(texts);
  return new Map(texts.map((text) => [text, `${begin ? '…' : ''}${text.slice(begin, text.length - end)}${end ? '…' : ''}`]));
}

/** How much all texts share at their beginning and at their end, up to separators. */
function sharedEnds(texts: string[]): [begin: number, end: number] {
  const begin = sharedParts(texts);
  return [begin, sharedParts(texts.map((text) => [...text.slice(begin)].reverse().join('')))];
}

function sharedParts(texts: string[]): number {
  const shared = (texts[0] ?? '').slice(0, sharedStart(texts));
  const length = [...shared].findLastIndex((letter) => separators.test(letter)) + 1;
  return length < leastShared ? 0 : length;
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

/** What differs in texts that share both ends, after as much of the beginning as there is room for. */
function cutShared(text: string, others: string[], width: number, font: Font, measure: Measure): string {
  const [begin, end] = sharedEnds(others);
  const differing = [0, end].map((cut) => `…${text.slice(begin, text.length - cut)}${cut ? '…' : ''}`).find((each) => measure(each, font) <= width);
  if (begin && differing) {
    return longest(begin, (kept) => (kept > 1 ? `${text.slice(0, kept)}${differing}` : differing), width, font, measure);
  }
  const tail = `…${text.slice(Math.max(0, sharedStart(others) - 2)).replace(/^…/, '')}`;
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
