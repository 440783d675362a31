// Which row each box goes to: below everything it reads, and as near to its readers as that allows.

export type Edge = [from: number, to: number, weight?: number];

/** Edges without the lightest of each cycle: the heaviest are taken first, and one that would close a cycle is left out. */
export function dropCycles(count: number, edges: Edge[]): Edge[] {
  const leaving: number[][] = Array.from({ length: count }, () => []);
  const kept = new Set<Edge>();
  for (const edge of [...edges].sort((one, other) => (other[2] ?? 1) - (one[2] ?? 1))) {
    const [from, to] = edge;
    if (from === to || leads(leaving, to, from)) continue;
    leaving[from]?.push(to);
    kept.add(edge);
  }
  return edges.filter((edge) => kept.has(edge));
}

function leads(leaving: number[][], from: number, to: number): boolean {
  const seen = new Set([from]);
  const waiting = [from];
  for (let cell = waiting.pop(); cell !== undefined; cell = waiting.pop()) {
    if (cell === to) return true;
    for (const next of leaving[cell] ?? []) {
      if (!seen.has(next)) {
        seen.add(next);
        waiting.push(next);
      }
    }
  }
  return false;
}

/** The row of each cell; `edges` must be free of cycles. */
export function assignRanks(count: number, edges: Edge[]): number[] {
  const order = sortByReading(count, edges);
  const leaving: number[][] = Array.from({ length: count }, () => []);
  const entering = new Array<number>(count).fill(0);
  for (const [from, to] of edges) {
    leaving[from]?.push(to);
    entering[to] = (entering[to] ?? 0) + 1;
  }
  const ranks = new Array<number>(count).fill(0);
  for (const cell of order) {
    for (const to of leaving[cell] ?? []) ranks[to] = Math.max(ranks[to] ?? 0, (ranks[cell] ?? 0) + 1);
  }
  // What reads nothing (constants, variables) goes right above its first reader, not all to the top.
  for (const cell of order) {
    const readers = leaving[cell] ?? [];
    if (entering[cell] === 0 && readers.length) ranks[cell] = Math.min(...readers.map((to) => ranks[to] ?? 0)) - 1;
  }
  return ranks;
}

function sortByReading(count: number, edges: Edge[]): number[] {
  const waiting = new Array<number>(count).fill(0);
  const leaving: number[][] = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) {
    waiting[to] = (waiting[to] ?? 0) + 1;
    leaving[from]?.push(to);
  }
  const order = waiting.flatMap((inputs, cell) => (inputs === 0 ? [cell] : []));
  for (let position = 0; position < order.length; position += 1) {
    for (const to of leaving[order[position] ?? 0] ?? []) {
      waiting[to] = (waiting[to] ?? 0) - 1;
      if (waiting[to] === 0) order.push(to);
    }
  }
  return order;
}

/** Connected components, the largest first; each in the given order. */
export function findGroups(count: number, edges: Edge[]): number[][] {
  const leader = Array.from({ length: count }, (_, cell) => cell);
  const find = (cell: number): number => {
    let top = cell;
    while (leader[top] !== top) top = leader[top] = leader[leader[top] ?? 0] ?? 0;
    return top;
  };
  for (const [from, to] of edges) leader[find(from)] = find(to);
  const groups = new Map<number, number[]>();
  for (let cell = 0; cell < count; cell += 1) {
    const top = find(cell);
    groups.set(top, [...(groups.get(top) ?? []), cell]);
  }
  return [...groups.values()].sort((one, other) => other.length - one.length);
}
