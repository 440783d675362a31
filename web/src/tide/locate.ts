// Finds a tensor of a tide, or a node of a plan, in a graph.
import type { Api, FileEntry, GraphEntry } from '../api';
import type { Context } from '../context';
import { element } from '../dom';
import { messageOf } from '../notice';
import { graphRoute } from '../route';
import { button } from './parts';

interface LocatedGraph extends GraphEntry {
  path: string;
}

// How many graphs of a large folder are searched.
const mostAsked = 24;

export function graphsOf(files: FileEntry[]): LocatedGraph[] {
  return files.flatMap((file) => (file.graphs ?? []).map((graph) => ({ ...graph, path: file.path })));
}

/** Search the first graphs for a tensor. */
async function graphsThatHold(
  api: Api,
  tensor: string,
): Promise<{ holding: LocatedGraph[]; asked: number; waiting: number }> {
  const graphs = graphsOf((await api.files()).files);
  const asked = graphs.filter((graph) => graph.state === 'ready').slice(0, mostAsked);
  const answers = await Promise.all(asked.map((graph) => api.locate(graph.id, tensor).catch(() => ({ name: null }))));
  return {
    holding: asked.filter((_, index) => answers[index]!.name !== null),
    asked: asked.length,
    waiting: graphs.filter((graph) => graph.state === 'building' || graph.state === 'waiting').length,
  };
}

/** A button that leads to the tensor in a graph; if several graphs contain it, the user chooses. */
export function graphLink(context: Context, tensor: string, tide: number | null): HTMLElement {
  const answer = element('span', { class: 'graph-choice', role: 'status' });
  const open = (graph: string) => context.navigate(graphRoute(graph, { tensor, tide }));
  const ask = async () => {
    answer.textContent = 'Searching …';
    try {
      const { holding, asked, waiting } = await graphsThatHold(context.api, tensor);
      if (holding.length === 1) open(holding[0]!.id);
      else if (holding.length)
        answer.replaceChildren(
          'In which graph? ',
          ...holding.map((graph) => button(graphName(graph, holding), () => open(graph.id))),
        );
      else answer.textContent = describeAbsence(asked, waiting);
    } catch (problem) {
      answer.textContent = messageOf(problem);
    }
  };
  return element(
    'span',
    { class: 'graph-link' },
    button('Show in graph', () => void ask(), { class: 'primary' }),
    answer,
  );
}

function graphName(graph: LocatedGraph, among: LocatedGraph[]): string {
  const alone = among.filter((each) => each.path === graph.path).length === 1;
  return alone ? graph.path : `${graph.path}, ${graph.label}`;
}

function describeAbsence(asked: number, waiting: number): string {
  if (waiting)
    return `Not in ${asked === 1 ? 'the graph' : 'the graphs'} read so far; ${waiting} more ${waiting === 1 ? 'is' : 'are'} being read.`;
  if (!asked) return 'There is no graph here: open an event file or a SavedModel of the same program beside it.';
  return asked === 1 ? 'The graph here does not hold it.' : `None of the ${asked} graphs here holds it.`;
}
