// The data of a plan.
import type { Curve } from '../tide/data';
import type { Answer } from '../tide/parts';

export interface PlanCurve extends Curve {
  name: string;
  colour: string;
  peak_bytes: number;
  peak_event: number;
}

/** Curves of two steps in one chart. */
export interface Curves {
  peaks: string;
  budget_bytes: number | null;
  top_bytes: number;
  curves: PlanCurve[];
}

interface FrontierStep {
  bytes: number;
  slowdown: number;
  recomputed: number;
}

export interface FrontierPoint extends FrontierStep {
  /** "as it is", "this plan", "smallest", or empty. */
  name: string;
  /** The name, and whether the point is an estimate. */
  note: string;
  chosen: boolean;
  words: string;
}

/** What other budgets cost: `steps` are the Pareto-optimal points, from the most memory down; `points` are drawn. */
export interface Frontier {
  colour: string;
  top_bytes: number;
  top_slowdown: number;
  steps: FrontierStep[];
  points: FrontierPoint[];
}

export interface Total {
  actions: number;
  saves_bytes: number;
  costs_us: number;
}

export interface Action {
  what: string;
  layer: string;
  op: string | null;
  node: string;
  saves_bytes: number;
  costs_us: number;
  reason: string;
}

export interface PlanData {
  title: string;
  budget_bytes: number;
  summary: string;
  fits: boolean;
  answers: Answer[];
  curves: Curves;
  frontier: Frontier | null;
  layers: ({ layer: string } & Total)[];
  actions: Action[];
  /** The sum of all actions, those that are not listed included. */
  total: Total;
  usage: { code: string; purpose: string }[];
  method: string;
  notes: string[];
}

/** The savings and costs of several actions together. */
export function totalOf(actions: readonly Action[]): Total {
  return actions.reduce(
    (total, action) => ({
      actions: total.actions + 1,
      saves_bytes: total.saves_bytes + action.saves_bytes,
      costs_us: total.costs_us + action.costs_us,
    }),
    { actions: 0, saves_bytes: 0, costs_us: 0 },
  );
}

/** Round steps of time: 1, 2 or 5 times a power of ten percent, at most five of them. */
export function timeTicks(highest: number): number[] {
  const candidates = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];
  const step = candidates.find((each) => highest / each <= 5) ?? highest / 5;
  return Array.from({ length: Math.floor(highest / step) + 1 }, (_, tick) => tick * step);
}
