// Which row each box goes to: below everything it reads, and as near to its readers as that allows.

export type Edge = [from: number, to: number];

/** Edges without those that close a cycle, found by walking depth first in the given order. */
export function dropCycles(count: number, edges: Edge[]): Edge[] {
  const leaving: number[][] = Array.from({ length: count }, () => []);
  edges.forEach(([from], position) => leaving[from]?.push(position));
  const state = new Uint8Array(count); // 0 not seen, 1 on the way, 2 done
  const kept = new Uint8Array(edges.length);
  for (let start = 0; start < count; start += 1) {
    if (state[start]) continue;
    state[start] = 1;
    const way: { cell: number; next: number }[] = [{ cell: start, next: 0 }];
    for (let top = way.at(-1); top; top = way.at(-1)) {
      const position = leaving[top.cell]?.[top.next];
      if (position === undefined) {
        state[top.cell] = 2;
        way.pop();
        continue;
      }
      top.next += 1;
      const to = edges[position]?.[1] ?? 0;
      if (state[to] === 1) continue;
      kept[position] = 1;
      if (state[to] === 0) {
        state[to] = 1;
        way.push({ cell: to, next: 0 });
      }
    }
  }
  return edges.filter((_, position) => kept[position]);
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

/** Cells that hang together, largest group first; each group in the given order. */
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
