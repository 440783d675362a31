// The typed API of the server: one function per address.
import type { ReportView } from './route';

type State = 'ready' | 'building' | 'waiting' | 'failed';
export type Phase = 'forward' | 'backward' | 'optimizer' | 'mixed';
export type Change = 'same' | 'added' | 'removed' | 'changed';
type ItemKind = 'scope' | 'node' | 'series' | 'range' | 'cluster' | 'function';

export interface GraphEntry {
  id: string;
  label: string;
  state: State;
  /** With the nodes of its functions; null when counting them would take long. */
  nodes?: number | null;
  bytes?: number;
  /** The function of a traced step that it is; graphs with the same tag and position are versions of one function. */
  function?: {
    tag: string | null; position: number; name: string | null; stage: 'before' | 'after' | 'partition'; device: string | null;
  };
}

export interface FileEntry {
  id: number;
  path: string;
  kind: string;
  run?: string;
  bytes?: number;
  notes?: string[];
  graphs?: GraphEntry[];
  title?: string;
  peak_bytes?: number;
  method?: string;
  /** Of a training run: the steps that were trained. */
  steps?: number;
}

export interface Files {
  version: string;
  title: string;
  files: FileEntry[];
}

export interface Part {
  part: number;
  name: string;
  nodes: number;
}

export interface GraphReady {
  state: 'ready';
  label: string;
  path: string;
  nodes: number;
  edges: number;
  notes: string[];
  /** The file has changed, and is being read again. */
  changing?: boolean;
  parts: Part[];
  parts_total?: number;
  ops: [string, number][];
  devices: [string, number][];
  dtypes: [string, number][];
  phases: [string, number][];
}

export interface GraphBuilding {
  state: 'building' | 'waiting';
  progress: number | null;
  nodes: number;
  stage: string;
}

interface GraphFailed {
  state: 'failed';
  error: string;
  cure: string;
}

type GraphInfo = GraphReady | GraphBuilding | GraphFailed;

export interface Item {
  key: string;
  kind: ItemKind;
  label: string;
  nodes: number;
  bytes: number | null;
  op?: string | null;
  /** The most frequent op of a group, without constants and the like. */
  main_op?: string | null;
  dtype?: string | null;
  shape?: string | null;
  phase?: Phase | null;
  device?: string | null;
  value?: number | null;
  calls?: number[] | null;
  members?: number | null;
  change?: Change;
}

/** From and to (positions in `items`), edges bundled, their bytes, how many are control edges, and the shape if it is one tensor. */
export type ScreenEdge = [from: number, to: number, count: number, bytes: number, control: number, shape?: string | null];
export type Crossing = [item: number, count: number, bytes: number];

export interface Screen {
  part: number;
  path: string;
  fold: string;
  title: string;
  nodes: number;
  children: number;
  items: Item[];
  edges: ScreenEdge[];
  incoming: Crossing[];
  outgoing: Crossing[];
  hidden_items: number;
  hidden_edges: number;
  notes?: string[];
}

export interface Neighbour {
  name: string;
  op: string;
  control: boolean;
  port?: number;
  shape?: string | null;
  bytes?: number | null;
  missing?: boolean;
  /** How many edges of a group carry it. */
  edges?: number;
}

/** The tensors that cross the border of a scope or a fold. */
export interface GroupBorders {
  inputs: Neighbour[];
  input_count: number;
  outputs: Neighbour[];
  output_count: number;
}

export interface NodeDetails {
  part: number;
  name: string;
  op: string;
  device: string;
  phase: Phase;
  scope: string;
  bytes_in_file: number;
  position: number;
  outputs: { port: number; dtype: string | null; shape: (number | null)[] | null; bytes: number | null }[];
  attributes: { name: string; text: string; bytes?: number; folded?: boolean }[];
  inputs: Neighbour[];
  input_count: number;
  readers: Neighbour[];
  reader_count: number;
  calls: { part: number; name: string }[];
  tide?: NodeTide | null;
}

/** The tensors of a node in a tide; the largest are listed. */
interface NodeTide {
  bytes: number;
  bytes_at_peak: number;
  tensor_count: number;
  tensors: { name: string; bytes: number; kind: string; born: number; died: number; at_peak: boolean }[];
}

export interface SearchQuery {
  q: string;
  part?: number | null;
  op?: string;
  scope?: string;
  device?: string;
  dtype?: string;
  phase?: string;
  bytes?: number | null;
  limit?: number;
}

export interface SearchResult {
  part: number;
  name: string;
  op: string | null;
  kind: 'node' | 'scope';
  nodes: number;
}

export interface SearchAnswer {
  total: number;
  results: SearchResult[];
  milliseconds: number;
}

interface ScreenQuery {
  part: number;
  path: string;
  fold: string;
  tide?: number | null;
  colour?: string;
}

/** An error of the server or the connection, with what to do about it. */
export class ApiError extends Error {
  constructor(message: string, readonly cure: string) {
    super(message);
  }
}

export type Api = ReturnType<typeof createApi>;

type Parameters = Record<string, string | number | null | undefined>;

type Get = <Answer>(path: string, parameters: Parameters, signal?: AbortSignal) => Promise<Answer>;

/** The API of the server at an address. */
export function createServerApi(base: URL): Api {
  return createApi((path, parameters, signal) => fetchJson(address(base, path, parameters), signal));
}

/** The API of a page that carries its data: report 0, and nothing else. */
export function createInlinedApi(view: ReportView, title: string, data: unknown): Api {
  const files: Files = { version: '', title, files: [{ id: 0, path: title, kind: view, title }] };
  const answers: Record<string, unknown> = { 'api/files': files, [`api/${view}/0`]: data };
  return createApi(async <Answer>(path: string) => {
    if (path in answers) return answers[path] as Answer;
    throw new ApiError('This page has no server.', 'Open the file with `lowtide view`.');
  });
}

function createApi(get: Get) {
  const graphPath = (graph: string, rest = '') => `api/graph/${encodeURIComponent(graph)}${rest}`;
  return {
    files: (signal?: AbortSignal) => get<Files>('api/files', {}, signal),
    graph: (graph: string, signal?: AbortSignal) => get<GraphInfo>(graphPath(graph), {}, signal),
    screen: (graph: string, query: ScreenQuery, signal?: AbortSignal) =>
      get<Screen>(graphPath(graph, '/screen'), { ...query }, signal),
    node: (graph: string, query: NodeQuery, signal?: AbortSignal) =>
      get<NodeDetails>(graphPath(graph, '/node'), { ...query }, signal),
    group: (graph: string, query: GroupQuery, signal?: AbortSignal) =>
      get<GroupBorders>(graphPath(graph, '/group'), { ...query }, signal),
    search: (graph: string, query: SearchQuery, signal?: AbortSignal) =>
      get<SearchAnswer>(graphPath(graph, '/search'), { ...query }, signal),
    around: (graph: string, query: AroundQuery, signal?: AbortSignal) =>
      get<Screen>(graphPath(graph, '/around'), { ...query }, signal),
    paths: (graph: string, query: PathsQuery, signal?: AbortSignal) =>
      get<Screen>(graphPath(graph, '/paths'), { ...query }, signal),
    /** The keys to open, outermost first, until a node or scope is on a screen. */
    trail: (graph: string, query: TrailQuery, signal?: AbortSignal) =>
      get<{ trail: string[]; kind: 'node' | 'scope' }>(graphPath(graph, '/trail'), { ...query }, signal),
    locate: (graph: string, tensor: string, signal?: AbortSignal) =>
      get<{ part?: number; name: string | null }>(graphPath(graph, '/locate'), { tensor }, signal),
    diff: (one: string, other: string, query: { path: string; fold: string }, signal?: AbortSignal) =>
      get<Screen>('api/diff', { one, other, ...query }, signal),
    /** The data of a report is typed where it is drawn. */
    report: <Answer>(view: ReportView, id: number, signal?: AbortSignal) => get<Answer>(`api/${view}/${id}`, {}, signal),
  };
}

interface NodeQuery {
  part: number;
  name: string;
  tide?: number | null;
  inputs_from?: number;
  readers_from?: number;
}

interface GroupQuery {
  part: number;
  path: string;
  fold: string;
  inputs_from?: number;
  outputs_from?: number;
}

/** By which tide the nodes are coloured. */
interface Shade {
  tide: number | null;
  colour: string;
}

interface AroundQuery extends Shade {
  part: number;
  name: string;
  hops: number;
  direction: string;
}

interface TrailQuery {
  part: number;
  name: string;
  /** Without it, either; if both exist, the node. */
  kind?: 'node' | 'scope' | undefined;
}

interface PathsQuery extends Shade {
  part: number;
  from: string;
  to: string;
}

function address(base: URL, path: string, parameters: Parameters): URL {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== '') url.searchParams.set(name, String(value));
  }
  return url;
}

async function fetchJson<Answer>(url: URL, signal?: AbortSignal): Promise<Answer> {
  let response: Response;
  try {
    response = await fetch(url, { signal: signal ?? null, credentials: 'same-origin' });
  } catch (problem) {
    if (signal?.aborted) throw problem;
    throw new ApiError('The server does not answer.', 'Start it again with `lowtide view`, then reload this page.');
  }
  const answer: unknown = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer as Answer;
  throw describeError(response.status, answer);
}

function describeError(status: number, answer: unknown): ApiError {
  const { error, cure } = (answer ?? {}) as { error?: string; cure?: string };
  return new ApiError(error ?? `The server answered with status ${status}.`, cure ?? 'Reload the page.');
}
