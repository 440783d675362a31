// What can be opened: the graphs, tides, plans and training runs of all files, grouped by run, the main graph of each run first.
import type { FileEntry, Files, GraphEntry } from '../api';
import { graphRoute, type Route } from '../route';

/** One graph of an entry: a function is written before and after optimization, and as the partitions that ran. */
interface Version {
  id: string;
  label: string;
  nodes: number | null;
  bytes: number | null;
}

export interface Entry {
  kind: 'graph' | 'tide' | 'plan' | 'run';
  name: string;
  /** Where it is from: the file, and the step that was traced. */
  about: string;
  file: FileEntry;
  /** At least one for a graph, else none. */
  versions: Version[];
  route: Route;
  /** The graphs before and after optimization, if both are there. */
  pair: [before: string, after: string] | null;
  /** In lower case. */
  searched: string;
}

export interface Group {
  name: string;
  /** The main graph first, then other graphs by size, tides, plans, training runs. */
  entries: Entry[];
  /** Functions of a few nodes, of which TensorFlow writes one for each op that ran alone. */
  small: Entry[];
  /** What is wrong with a file. */
  notes: { path: string; note: string }[];
}

const fewNodes = 12;
const bytesOfNode = 150;
const stageLabels = { before: 'before optimization', after: 'after optimization', partition: 'partition' } as const;
const known = new WeakMap<Files, Group[]>();

export function listGroups(files: Files): Group[] {
  const made = known.get(files) ?? makeGroups(files);
  known.set(files, made);
  return made;
}

export function listEntries(files: Files): Entry[] {
  return listGroups(files).flatMap(({ entries, small }) => [...entries, ...small]);
}

/**
 * The route of the only graph, tide, plan or run, of what the only SavedModel serves, or of the run whose directory is shown;
 * null when there are none or several.
 */
export function onlyRoute(files: Files): Route | null {
  const entries = listEntries(files);
  const run = entries.find(({ kind, file }) => kind === 'run' && !file.run);
  if (run) return run.route;
  const [only] = entries;
  const isOne = entries.length === 1 || only?.file.kind === 'saved_model' && entries.every(({ file }) => file === only.file);
  return isOne && only && only.versions.length <= 1 ? only.route : null;
}

/** The number of runs with something to open; files outside of any folder belong to none. */
export function countRuns(groups: Group[]): number {
  return groups.filter(({ name, entries, small }) => name && entries.length + small.length).length;
}

/** The main graph of a group, where its file has others; null where it is the only one. */
export function mainOf({ entries, small }: Group): Entry | null {
  const [main] = entries;
  const others = [...entries.slice(1), ...small].some(({ file }) => file === main?.file);
  return main?.kind === 'graph' && others ? main : null;
}

export function isReading(files: Files): boolean {
  return files.files.some(({ kind }) => kind === 'reading');
}

/** The entry that an address shows, and which of its graphs. */
export function findShown(files: Files, route: Route): { entry: Entry; group: Group; version: Version | null } | null {
  const id = route.view === 'graph' ? route.graph : route.view === 'diff' ? route.one : null;
  for (const group of listGroups(files)) {
    for (const entry of [...group.entries, ...group.small]) {
      const version = entry.versions.find((each) => each.id === id) ?? null;
      const isReport = entry.kind === route.view && route.view !== 'graph' && route.id === entry.file.id;
      if (version || isReport) return { entry, group, version };
    }
  }
  return null;
}

/** The entries that contain every word, and those of a group whose name does. */
export function searchGroups(groups: Group[], text: string): Group[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return groups;
  const fits = (entry: Entry) => words.every((word) => entry.searched.includes(word));
  return groups
    .map((group) => ({ ...group, entries: [...group.entries, ...group.small].filter(fits), small: [], notes: [] }))
    .filter(({ entries }) => entries.length);
}

/** The number of nodes of an entry's largest graph; null when none was counted. */
export function sizeOf({ versions }: Entry): number | null {
  const counts = versions.flatMap(({ nodes }) => nodes ?? []);
  return counts.length ? Math.max(...counts) : null;
}

function makeGroups({ files }: Files): Group[] {
  const groups = new Map<string, FileEntry[]>();
  for (const file of files) groups.set(file.run ?? '', [...(groups.get(file.run ?? '') ?? []), file]);
  return [...groups].map(([name, inside]) => makeGroup(name, inside)).filter(({ entries, small, notes }) => entries.length + small.length + notes.length);
}

function makeGroup(name: string, files: FileEntry[]): Group {
  const graphs = files.flatMap(graphEntries).sort((one, other) => rankOf(other) - rankOf(one));
  const isSmall = (entry: Entry) => entry !== graphs[0] && entry.versions.length > 1 && (sizeOf(entry) ?? Infinity) < fewNodes;
  return {
    name,
    entries: [...graphs.filter((entry) => !isSmall(entry)), ...files.flatMap(reportEntry)],
    small: graphs.filter(isSmall),
    notes: files.flatMap(({ path, notes }) => (notes ?? []).map((note) => ({ path, note }))),
  };
}

function graphEntries(file: FileEntry): Entry[] {
  const entries = new Map<string, GraphEntry[]>();
  for (const graph of file.graphs ?? []) {
    const key = graph.function ? `${graph.function.tag} ${graph.function.position}` : graph.id;
    entries.set(key, [...(entries.get(key) ?? []), graph]);
  }
  return [...entries.values()].map((graphs) => graphEntry(file, graphs, entries.size === 1));
}

function graphEntry(file: FileEntry, graphs: GraphEntry[], alone: boolean): Entry {
  const [first] = graphs as [GraphEntry];
  const step = first.function;
  const name = step ? step.name ?? `function ${step.position}` : alone ? fileName(file) : first.label;
  const about = [step?.tag ?? (alone ? first.label : ''), step || !alone ? fileName(file) : ''].filter(Boolean).join(' · ');
  const stage = (wanted: string) => graphs.find((graph) => graph.function?.stage === wanted)?.id;
  const [before, after] = [stage('before'), stage('after')];
  return {
    kind: 'graph', name, about, file,
    versions: graphs.map((graph) => ({ id: graph.id, label: versionLabel(graph), nodes: graph.nodes ?? null, bytes: graph.bytes ?? null })),
    route: graphRoute(first.id),
    pair: before !== undefined && after !== undefined ? [before, after] : null,
    searched: [name, about, file.path, ...graphs.map(({ label }) => label)].join(' ').toLowerCase(),
  };
}

function versionLabel({ function: step, label }: GraphEntry): string {
  if (!step) return label;
  return step.stage === 'partition' && step.device ? `partition ${step.device}` : stageLabels[step.stage];
}

function reportEntry(file: FileEntry): Entry[] {
  if (file.kind !== 'tide' && file.kind !== 'plan' && file.kind !== 'run') return [];
  const name = file.title || file.path;
  return [{
    kind: file.kind, name, about: fileName(file), file, versions: [], pair: null,
    route: { view: file.kind, id: file.id, options: {} },
    searched: [file.kind, name, file.path].join(' ').toLowerCase(),
  }];
}

function fileName({ path }: FileEntry): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

// A graph that was not counted is large; its bytes tell how large.
/** The graphs of a SavedModel stay in the order of the file: its serving signature is the main one, the whole graph the last. */
function rankOf(entry: Entry): number {
  const { kind, graphs } = entry.file;
  return kind === 'saved_model' ? Math.max(...(graphs ?? []).map(graphWeight)) : weightOf(entry);
}

function weightOf(entry: Entry): number {
  return Math.max(...entry.versions.map(graphWeight));
}

function graphWeight({ nodes, bytes }: { nodes?: number | null; bytes?: number | null }): number {
  return nodes ?? (bytes ?? 0) / bytesOfNode;
}
