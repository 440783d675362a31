// What the layout is given and what it answers. Plain data, since it crosses to a worker.

/** One box; when it is open, `inner` is what lies inside it. */
export interface Cell {
  width: number;
  height: number;
  inner: Sheet | null;
}

/** The boxes of one screen and the edges between them, as positions in `cells`, with how much each one weighs. */
export interface Sheet {
  /** What the screen is; the same name, sizes and edges give the same layout, so it need not be computed again. */
  name: string;
  cells: Cell[];
  edges: [from: number, to: number, weight: number][];
  /** Room for the heading and the line below, and the least width these need. */
  top: number;
  bottom: number;
  leastWidth: number;
}

export interface PlacedCell {
  x: number;
  y: number;
  width: number;
  height: number;
  inner: PlacedSheet | null;
}

/** Positions are within the sheet. A route is x, y of a start followed by cubic curves of six numbers each. */
export interface PlacedSheet {
  width: number;
  height: number;
  cells: PlacedCell[];
  routes: number[][];
}

/** Between rows that are connected, between boxes in a row, between rows that are not, and to the border. */
export const gaps = { rank: 46, cell: 20, shelf: 34, margin: 22 } as const;
