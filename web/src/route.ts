// The state of the page is in `location.hash`, so that a link opens the same view.

export type Direction = 'both' | 'inputs' | 'readers';

/** The nodes that a graph view shows instead of scopes: those around one node, or those between two. */
export type Focus =
  | { kind: 'around'; name: string; hops: number; direction: Direction }
  | { kind: 'paths'; from: string; to: string };

export interface GraphRoute {
  view: 'graph';
  graph: string;
  part: number;
  open: string[];
  select: string | null;
  colour: string;
  tide: number | null;
  focus: Focus | null;
  /** A tensor of a tide, to be found and selected: `#graph/0.0?tensor=dense/Relu:0`. */
  tensor: string | null;
  /** A second graph next to this one, with the scopes open in it. */
  beside: string | null;
  besideOpen: string[];
}

export interface DiffRoute {
  view: 'diff';
  one: string;
  other: string;
  open: string[];
  select: string | null;
}

/** The views that draw one file or one report, by its number. */
const reportViews = ['tide', 'plan', 'run', 'difference', 'shortage', 'forecast'] as const;
export type ReportView = (typeof reportViews)[number];

/** `options` are the parts behind the "?", for the view to read: `at`, `over`, ... */
export interface ReportRoute {
  view: ReportView;
  id: number;
  options: Record<string, string>;
}

interface FilesRoute {
  view: 'files';
}

export type Route = FilesRoute | GraphRoute | DiffRoute | ReportRoute;

export function graphRoute(graph: string, changes: Partial<GraphRoute> = {}): GraphRoute {
  return {
    view: 'graph', graph, part: 0, open: [], select: null, colour: '', tide: null, focus: null,
    tensor: null, beside: null, besideOpen: [], ...changes,
  };
}

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#/, '');
  const cut = text.indexOf('?');
  const path = (cut < 0 ? text : text.slice(0, cut)).split('/');
  const query = parseQuery(cut < 0 ? '' : text.slice(cut + 1));
  switch (path[0]) {
    case 'graph':
      return path[1] ? parseGraph(decode(path[1]), query) : { view: 'files' };
    case 'diff':
      return path[1] && path[2] ? parseDiff(decode(path[1]), decode(path[2]), query) : { view: 'files' };
    default: {
      const view = reportViews.find((each) => each === path[0]);
      const id = parseCount(path[1] ?? '');
      return view && id !== null ? { view, id, options: decodeAll(query) } : { view: 'files' };
    }
  }
}

export function formatRoute(route: Route): string {
  switch (route.view) {
    case 'files':
      return '#files';
    case 'graph':
      return `#graph/${encode(route.graph)}${formatQuery(graphQuery(route))}`;
    case 'diff':
      return `#diff/${encode(route.one)}/${encode(route.other)}${formatQuery([
        ['open', joinKeys(route.open)], ['select', encodeOptional(route.select)],
      ])}`;
    default:
      return `#${route.view}/${route.id}${formatQuery(
        Object.entries(route.options).map(([name, value]) => [encode(name), encode(value)]))}`;
  }
}

function parseGraph(graph: string, query: Map<string, string>): GraphRoute {
  const tide = parseCount(query.get('tide') ?? '');
  return graphRoute(graph, {
    part: parseCount(query.get('part') ?? '') ?? 0,
    open: splitKeys(query.get('open')),
    select: decodeOptional(query.get('select')),
    colour: decode(query.get('colour') ?? ''),
    tide,
    focus: parseFocus(query),
    tensor: decodeOptional(query.get('tensor')),
    beside: decodeOptional(query.get('beside')),
    besideOpen: splitKeys(query.get('beside_open')),
  });
}

function parseDiff(one: string, other: string, query: Map<string, string>): DiffRoute {
  return { view: 'diff', one, other, open: splitKeys(query.get('open')), select: decodeOptional(query.get('select')) };
}

function parseFocus(query: Map<string, string>): Focus | null {
  const around = query.get('around');
  const from = query.get('from');
  const to = query.get('to');
  if (around) {
    const direction = query.get('direction');
    return {
      kind: 'around', name: decode(around), hops: Math.min(Math.max(parseCount(query.get('hops') ?? '') ?? 1, 1), 4),
      direction: direction === 'inputs' || direction === 'readers' ? direction : 'both',
    };
  }
  return from && to ? { kind: 'paths', from: decode(from), to: decode(to) } : null;
}

function graphQuery(route: GraphRoute): [string, string][] {
  const focus = route.focus;
  return [
    ['part', route.part ? String(route.part) : ''],
    ['around', focus?.kind === 'around' ? encode(focus.name) : ''],
    ['hops', focus?.kind === 'around' ? String(focus.hops) : ''],
    ['direction', focus?.kind === 'around' && focus.direction !== 'both' ? focus.direction : ''],
    ['from', focus?.kind === 'paths' ? encode(focus.from) : ''],
    ['to', focus?.kind === 'paths' ? encode(focus.to) : ''],
    ['open', joinKeys(route.open)],
    ['select', encodeOptional(route.select)],
    ['colour', encode(route.colour)],
    ['tide', route.tide === null ? '' : String(route.tide)],
    ['tensor', encodeOptional(route.tensor)],
    ['beside', encodeOptional(route.beside)],
    ['beside_open', joinKeys(route.besideOpen)],
  ];
}

function formatQuery(pairs: [string, string][]): string {
  const given = pairs.filter(([, value]) => value !== '').map(([name, value]) => `${name}=${value}`);
  return given.length ? `?${given.join('&')}` : '';
}

function parseQuery(text: string): Map<string, string> {
  const query = new Map<string, string>();
  for (const pair of text.split('&')) {
    const cut = pair.indexOf('=');
    if (cut > 0) query.set(pair.slice(0, cut), pair.slice(cut + 1));
  }
  return query;
}

function decodeAll(query: Map<string, string>): Record<string, string> {
  return Object.fromEntries([...query].map(([name, value]) => [decode(name), decode(value)]));
}

// Slashes and colons stay readable: they have no meaning behind the "?" of a hash.
function encode(text: string): string {
  return encodeURIComponent(text).replaceAll('%2F', '/').replaceAll('%3A', ':');
}

// A link that was cut within an escape still opens, with the text unchanged.
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function encodeOptional(text: string | null): string {
  return text === null ? '' : encode(text);
}

function decodeOptional(text: string | undefined): string | null {
  return text ? decode(text) : null;
}

function joinKeys(keys: string[]): string {
  return keys.map(encode).join(';');
}

function splitKeys(text: string | undefined): string[] {
  return text ? text.split(';').filter(Boolean).map(decode) : [];
}

function parseCount(text: string): number | null {
  return /^\d+$/.test(text) ? Number(text) : null;
}
