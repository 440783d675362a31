// Connected boxes, in rows from top to bottom. dagre orders the boxes of each row and positions them.
import { Graph, layout as layoutByDagre } from './dagre';
import { assignRanks, dropCycles, type Edge } from './ranks';
import { gaps } from './shapes';

export interface Size {
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

/** Where a group's boxes are (upper left corners), and the points that edges bend around, by position of the edge. */
export interface PlacedGroup {
  width: number;
  height: number;
  corners: Point[];
  bends: Map<number, Point[]>;
}

// dagre puts a stand-in on every half row that an edge crosses and its time grows with their number: this many keep a
// screen of 120 boxes and 400 edges near a tenth of a second. Longer edges are drawn straight across the rows.
const mostStandIns = 160;

export function placeGroup(sizes: Size[], edges: Edge[], widest: number): PlacedGroup {
  const forward = dropCycles(sizes.length, edges);
  const ranks = assignRanks(sizes.length, forward);
  const shaping = chooseShaping(forward, ranks);
  const graph = runDagre(sizes, shaping, ranks);
  const centres = sizes.map((_, cell) => graph.node(String(cell)) as Point);
  const placed = readPlaces(graph, sizes, edges, centres, ranks);
  return placed.width > widest ? wrapRows(sizes, ranks, centres, widest) : placed;
}

/** The shortest edges first, as many as dagre can take. */
function chooseShaping(edges: Edge[], ranks: number[]): Edge[] {
  const span = ([from, to]: Edge) => (ranks[to] ?? 0) - (ranks[from] ?? 0);
  const sorted = [...edges].sort((one, other) => span(one) - span(other));
  let standIns = 0;
  return sorted.filter((edge) => {
    standIns += 2 * span(edge) - 1;
    return standIns <= mostStandIns || span(edge) === 1;
  });
}

function runDagre(sizes: Size[], edges: Edge[], ranks: number[]): Graph {
  const graph = new Graph();
  // dagre halves the distance of rows to make room for labels of edges, so ours count double.
  const ranker = (ranked: Graph) => {
    for (const name of ranked.nodes()) (ranked.node(name) as { rank: number }).rank = 2 * (ranks[Number(name)] ?? 0);
  };
  graph.setGraph({ ranksep: gaps.rank, nodesep: gaps.cell, edgesep: 10, ranker });
  sizes.forEach(({ width, height }, cell) => graph.setNode(String(cell), { width, height }));
  for (const [from, to] of edges) graph.setEdge(String(from), String(to), {});
  layoutByDagre(graph);
  return graph;
}

function readPlaces(graph: Graph, sizes: Size[], edges: Edge[], centres: Point[], ranks: number[]): PlacedGroup {
  const rows = measureRows(sizes, centres, ranks);
  const bends = new Map<number, Point[]>();
  edges.forEach(([from, to], position) => {
    const points = (graph.edge(String(from), String(to)) as { points?: Point[] } | undefined)?.points;
    if (points && points.length > 3) bends.set(position, points.slice(1, -1).flatMap((point) => passRow(point, rows)));
  });
  const corners = centres.map(({ x, y }, cell) => ({
    x: x - (sizes[cell]?.width ?? 0) / 2, y: y - (sizes[cell]?.height ?? 0) / 2,
  }));
  return shiftToOrigin(sizes, corners, bends);
}

interface Row {
  y: number;
  height: number;
}

function measureRows(sizes: Size[], centres: Point[], ranks: number[]): Row[] {
  const rows = new Map<number, Row>();
  sizes.forEach(({ height }, cell) => {
    const rank = ranks[cell] ?? 0;
    rows.set(rank, { y: centres[cell]?.y ?? 0, height: Math.max(height, rows.get(rank)?.height ?? 0) });
  });
  return [...rows.values()];
}

// Beside an open box, which is tall, an edge has to go straight down, or it would cut the box's corners.
function passRow(point: Point, rows: Row[]): Point[] {
  const row = rows.find(({ y, height }) => height > 60 && Math.abs(y - point.y) < 1);
  return row ? [{ x: point.x, y: point.y - row.height / 2 }, { x: point.x, y: point.y + row.height / 2 }] : [point];
}

/** A row that is too wide for reading becomes several; edges then go straight from box to box. */
function wrapRows(sizes: Size[], ranks: number[], centres: Point[], widest: number): PlacedGroup {
  const corners: Point[] = sizes.map(() => ({ x: 0, y: 0 }));
  let y = 0;
  for (const rank of [...new Set(ranks)].sort((one, other) => one - other)) {
    const cells = sizes.map((_, cell) => cell).filter((cell) => ranks[cell] === rank);
    cells.sort((one, other) => (centres[one]?.x ?? 0) - (centres[other]?.x ?? 0));
    const rows = splitRow(cells, sizes, widest);
    rows.forEach((row, position) => {
      let x = (widest - rowWidth(row, sizes)) / 2;
      for (const cell of row) {
        corners[cell] = { x, y };
        x += (sizes[cell]?.width ?? 0) + gaps.cell;
      }
      y += Math.max(...row.map((cell) => sizes[cell]?.height ?? 0)) + (position + 1 < rows.length ? gaps.shelf : gaps.rank);
    });
  }
  return shiftToOrigin(sizes, corners, new Map());
}

/** Rows of about the same width, none wider than `widest` unless one box alone is. */
function splitRow(cells: number[], sizes: Size[], widest: number): number[][] {
  const count = Math.ceil(rowWidth(cells, sizes) / widest);
  const goal = rowWidth(cells, sizes) / count;
  const rows: number[][] = [[]];
  let width = 0;
  for (const cell of cells) {
    const own = (sizes[cell]?.width ?? 0) + gaps.cell;
    if (width > 0 && width + own / 2 > goal) {
      rows.push([]);
      width = 0;
    }
    rows.at(-1)?.push(cell);
    width += own;
  }
  return rows;
}

function rowWidth(cells: number[], sizes: Size[]): number {
  return cells.reduce((width, cell) => width + (sizes[cell]?.width ?? 0) + gaps.cell, -gaps.cell);
}

function shiftToOrigin(sizes: Size[], corners: Point[], bends: Map<number, Point[]>): PlacedGroup {
  const left = Math.min(...corners.map(({ x }) => x));
  const top = Math.min(...corners.map(({ y }) => y));
  const shift = ({ x, y }: Point) => ({ x: x - left, y: y - top });
  const moved = corners.map(shift);
  return {
    width: Math.max(...moved.map(({ x }, cell) => x + (sizes[cell]?.width ?? 0))),
    height: Math.max(...moved.map(({ y }, cell) => y + (sizes[cell]?.height ?? 0))),
    corners: moved,
    bends: new Map([...bends].map(([position, points]) => [position, points.map(shift)])),
  };
}
