import { expect, test } from 'vitest';
import type { FileEntry, Files, GraphEntry } from '../src/api';
import { graphRoute } from '../src/route';
import { countRuns, findShown, isReading, listEntries, listGroups, mainOf, onlyRoute, searchGroups, sizeOf } from '../src/start/entries';

function version(id: string, position: number, name: string | null, stage: 'before' | 'after' | 'partition', nodes: number | null, bytes = 100): GraphEntry {
  return { id, label: `batch_2 · function ${position} · ${stage}`, state: 'waiting', nodes, bytes, function: { tag: 'batch_2', position, name, stage, device: null } };
}

function file(id: number, path: string, changes: Partial<FileEntry>): FileEntry {
  return { id, path, run: path.split('/').slice(0, -1).join('/'), kind: 'events', notes: [], ...changes };
}

const traced = file(0, 'run/events.1', {
  graphs: [
    { id: '0.0', label: 'keras · conceptual graph', state: 'waiting', nodes: 20, bytes: 900 },
    version('0.1', 1, 'VarHandleOp', 'before', 2), version('0.2', 1, 'VarHandleOp', 'after', 2),
    version('0.3', 2, 'train_step', 'before', 300), version('0.4', 2, 'train_step', 'after', 250), version('0.5', 2, 'train_step', 'partition', 249),
    version('0.6', 3, null, 'before', 40),
  ],
});
const tide = file(1, 'run/step.tide', { kind: 'tide', title: 'train.py:build', peak_bytes: 2048 });
const plan = file(2, 'step.plan', { kind: 'plan', title: 'a plan' });
const broken = file(3, 'other/broken.pb', { kind: 'unreadable', graphs: [], notes: ['no graph is in this file'] });
const files: Files = { version: '', title: 'logs', files: [traced, tide, plan, broken] };

test('graphs of one function are one entry, and the main graph of a run comes first', () => {
  const [run] = listGroups(files);
  expect(run?.name).toBe('run');
  expect(run?.entries.map(({ name, kind, versions }) => [name, kind, versions.map(({ id }) => id)])).toEqual([
    ['train_step', 'graph', ['0.3', '0.4', '0.5']], ['function 3', 'graph', ['0.6']], ['keras · conceptual graph', 'graph', ['0.0']],
    ['train.py:build', 'tide', []],
  ]);
  expect(run?.entries[0]?.pair).toEqual(['0.3', '0.4']);
  expect(run?.entries.map(sizeOf)).toEqual([300, 40, 20, null]);
  expect(run?.small.map(({ name }) => name)).toEqual(['VarHandleOp']);
});

test('a SavedModel opens on its serving signature, however large its whole graph is', () => {
  const graph = (id: string, label: string, nodes: number): GraphEntry => ({ id, label, state: 'waiting', nodes, bytes: 100 });
  const model = file(0, 'export/saved_model.pb', { kind: 'saved_model', graphs: [graph('0.0', 'serve · serving_default', 76), graph('0.1', 'serve · score', 30), graph('0.2', 'serve', 675)] });
  const names = listEntries({ ...files, files: [file(1, 'export/graph.pb', { graphs: [graph('1.0', 'graph', 100)] }), model] }).map(({ name }) => name);
  expect(names).toEqual(['serve · serving_default', 'serve · score', 'serve', 'graph.pb']);
});

test('a graph that was not counted is placed by its bytes', () => {
  const huge: Files = { ...files, files: [file(0, 'a/events.1', { graphs: [version('0.0', 1, 'small', 'before', 500, 75_000), version('0.1', 2, 'huge', 'before', null, 1e9)] })] };
  expect(listEntries(huge).map(({ name }) => name)).toEqual(['huge', 'small']);
  expect(listEntries(huge).map(sizeOf)).toEqual([null, 500]);
});

test('files in no run are a group, and damage is shown', () => {
  const [, root, other] = listGroups(files);
  expect([root?.name, root?.entries.map(({ name }) => name)]).toEqual(['', ['a plan']]);
  expect([other?.name, other?.entries, other?.notes]).toEqual(['other', [], [{ path: 'other/broken.pb', note: 'no graph is in this file' }]]);
});

test('files in no run and files that cannot be read are no runs', () => {
  expect(listGroups(files)).toHaveLength(3);
  expect(countRuns(listGroups(files))).toBe(1);
  expect(countRuns(searchGroups(listGroups(files), 'plan'))).toBe(0);
});

test('a graph that is the only one of its file is no main graph', () => {
  const alone = ['a.pb', 'b.pb'].map((name, id) => file(id, name, { graphs: [{ id: `${id}.0`, label: 'graph', state: 'waiting' }] }));
  const mains = (...all: FileEntry[]) => listGroups({ ...files, files: all }).map((group) => mainOf(group)?.name ?? null);
  expect(mains(...alone)).toEqual([null]);
  expect(mains(traced, tide, plan)).toEqual(['train_step', null]);
});

test('every word has to be found, in any order and case', () => {
  const found = (text: string) => searchGroups(listGroups(files), text).flatMap(({ entries }) => entries.map(({ name }) => name));
  expect(found('STEP batch_2')).toEqual(['train_step']);
  expect(found('varhandle')).toEqual(['VarHandleOp']);
  expect(found('tide')).toEqual(['train.py:build']);
  expect(found('nothing like it')).toEqual([]);
  expect(found('  ')).toHaveLength(5);
});

test('one graph, tide, plan or SavedModel alone is opened, versions of one function are listed', () => {
  const only = (...all: FileEntry[]) => onlyRoute({ ...files, files: all });
  expect(only(tide)).toEqual({ view: 'tide', id: 1, options: {} });
  expect(only(tide, broken)).toEqual({ view: 'tide', id: 1, options: {} });
  expect(only(file(4, 'g.pb', { graphs: [{ id: '4.0', label: 'graph', state: 'waiting' }] }))).toEqual(graphRoute('4.0'));
  expect(only(tide, plan)).toBeNull();
  expect(only(file(0, 'a/events.1', { graphs: [version('0.0', 1, 'f', 'before', 2), version('0.1', 1, 'f', 'after', 2)] }))).toBeNull();
  expect(only()).toBeNull();
  const graphs = ['serve · serving_default', 'serve · score', 'serve'].map((label, number): GraphEntry => ({ id: `0.${number}`, label, state: 'waiting' }));
  const model = file(0, 'export/saved_model.pb', { kind: 'saved_model', graphs });
  expect(only(model)).toEqual(graphRoute('0.0'));
  expect(only(model, tide)).toBeNull();
});

test('the run whose directory is shown is opened, runs below a folder are listed', () => {
  const run = file(0, 'history.jsonl', { kind: 'run', title: 'train.py --epochs 6', steps: 600 });
  const below = file(1, 'a/history.jsonl', { kind: 'run', title: 'train.py', steps: 3 });
  const route = { view: 'run', id: 0, options: {} } as const;
  expect(onlyRoute({ ...files, files: [file(3, 'plans/step.plan', { kind: 'plan' }), run] })).toEqual(route);
  expect(onlyRoute({ ...files, files: [below, plan] })).toBeNull();
  expect(listEntries({ ...files, files: [run, below] }).map(({ kind, name }) => [kind, name])).toEqual([
    ['run', 'train.py --epochs 6'], ['run', 'train.py'],
  ]);
  expect(findShown({ ...files, files: [run] }, route)?.entry.name).toBe('train.py --epochs 6');
});

test('what an address shows is found again', () => {
  expect(findShown(files, graphRoute('0.4'))).toMatchObject({ entry: { name: 'train_step' }, version: { id: '0.4', label: 'after optimization' } });
  expect(findShown(files, { view: 'diff', one: '0.1', other: '0.2', open: [], select: null })?.entry.name).toBe('VarHandleOp');
  expect(findShown(files, { view: 'plan', id: 2, options: {} })?.entry.name).toBe('a plan');
  expect(findShown(files, { view: 'tide', id: 2, options: {} })).toBeNull();
  expect(isReading({ ...files, files: [file(0, 'x', { kind: 'reading' })] })).toBe(true);
});
