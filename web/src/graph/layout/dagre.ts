// dagre, with a type for the one thing its own types leave out: rows may be given by a function.
import dagre from '@dagrejs/dagre';

export const Graph = dagre.graphlib.Graph;
export type Graph = InstanceType<typeof Graph>;

export function layout(graph: Graph): void {
  dagre.layout(graph);
}
