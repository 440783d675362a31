"""How far from the cheapest schedule the search is, on graphs that an exact solver can still solve.

    python -m benchmarks.fit.optimality [--seconds 60] [--only chain]

The graphs are training steps of at most 60 tasks. Each is given the budget that square-root checkpointing keeps, and
budgets that take away a quarter, a half, three quarters and nearly all of what can be taken away.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fit.exact import Exact, solve
from benchmarks.fit.synthetic import Net, chain, conv_bn_relu, random_net, residual, u_shape
from lowtide.planning.memory_profile import profile_schedule
from lowtide.planning.problem import PlanningProblem
from lowtide.planning.remat.checkpoints import segments, square_root, turning_point
from lowtide.planning.remat.remat_search import RematSolution, find_schedule
from lowtide.planning.remat.schedule_state import ScheduleState

RESULTS = Path(__file__).parent / "results" / "optimality.md"

GRAPHS: dict[str, Net] = {
    "chain of 16 equal": chain(16),
    "chain of 30 equal": chain(30),
    "chain of 16 varied": chain(16, 1),
    "chain of 24 varied": chain(24, 2),
    "chain of 30 varied": chain(30, 3),
    "residual, 5 equal blocks": residual(5),
    "residual, 8 equal blocks": residual(8),
    "residual, 8 varied blocks": residual(8, 4),
    "conv-BN-ReLU, 6": conv_bn_relu(6),
    "conv-BN-ReLU, 9": conv_bn_relu(9),
    "conv-BN-ReLU, 9 varied": conv_bn_relu(9, 5),
    "U of 3 levels": u_shape(3),
    "U of 4 levels": u_shape(4),
    "U of 4 levels, varied": u_shape(4, 6),
    **{f"random, 12 ops, {seed}": random_net(12, seed) for seed in range(3)},
    **{f"random, 20 ops, {seed}": random_net(20, seed) for seed in range(10, 14)},
}


@dataclass
class OptimalityRow:
    """One graph and budget; costs are extra microseconds, None where a method has no schedule within the budget."""

    graph: str
    tasks: int
    budget: int
    plain: int
    cost: float | None
    exact: Exact
    root: float | None
    seconds: float
    exact_seconds: float

    @property
    def ratio(self) -> float | None:
        """Our cost over the exact one; None where that is not proven or there is none."""
        if self.cost is None or not self.exact.proven or self.exact.cost_us is None:
            return None
        # The solver counts in thousandths of a microsecond.
        return max(1.0, self.cost / self.exact.cost_us)


def root_schedule(problem: PlanningProblem) -> tuple[int, float]:
    """Peak and cost of square-root checkpointing."""
    state = ScheduleState(problem, 0)
    state.reset(segments(problem, square_root(problem), turning_point(problem)))
    profile = profile_schedule(problem, state.schedule())
    return profile.peak_bytes, profile.extra_us


def budgets(problem: PlanningProblem, root_peak: int) -> Iterable[int]:
    plain = profile_schedule(problem, range(len(problem))).peak_bytes
    lowest = find_schedule(problem, 0).profile.peak_bytes
    shares = {plain - round((plain - lowest) * share) for share in (0.25, 0.5, 0.75, 0.95)}
    if lowest <= root_peak < plain:
        shares.add(root_peak)
    return sorted(shares - {plain}, reverse=True)


def slots_of(solution: RematSolution) -> dict[int, int]:
    """Where each task that runs again does so."""
    slots, waiting = {}, []
    for instance in solution.schedule:
        if instance < 0:
            waiting.append(~instance)
        else:
            slots |= dict.fromkeys(waiting, instance)
            waiting = []
    return slots


def compare(name: str, problem: PlanningProblem, seconds: float) -> Iterable[OptimalityRow]:
    plain = profile_schedule(problem, range(len(problem))).peak_bytes
    root_peak, root_cost = root_schedule(problem)
    for budget in budgets(problem, root_peak):
        began = time.perf_counter()
        solution = find_schedule(problem, budget)
        found = time.perf_counter()
        exact = solve(problem, budget, seconds, slots_of(solution) if solution.within else None)
        ended = time.perf_counter()
        cost = solution.profile.extra_us if solution.within else None
        root = root_cost if root_peak <= budget else None
        yield OptimalityRow(name, len(problem), budget, plain, cost, exact, root, found - began, ended - found)


def table(rows: list[OptimalityRow]) -> str:
    lines = [
        "| graph | tasks | budget, of the plain peak | lowtide, µs | exact, µs | ratio | square root, µs | search, s |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        exact = "none" if row.exact.cost_us is None else f"{row.exact.cost_us:.1f}"
        if not row.exact.proven:
            exact = f"{exact} (at least {row.exact.bound_us:.1f})"
        cost = "none" if row.cost is None else f"{row.cost:.1f}"
        root = "over" if row.root is None else f"{row.root:.1f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
        lines.append(
            f"| {row.graph} | {row.tasks} | {row.budget / row.plain:.0%} | {cost} | {exact} | {ratio} | {root} "
            f"| {row.seconds:.1f} |"
        )
    return "\n".join(lines)


def summary(rows: list[OptimalityRow]) -> str:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    within = sum(ratio <= 1.05 for ratio in ratios)
    missed = sum(row.cost is None and row.exact.cost_us is not None for row in rows)
    rooted = [row for row in rows if row.root is not None]
    worse = sum(row.cost is None or row.cost > row.root + 1e-6 for row in rooted if row.root is not None)
    proven = sum(row.exact.proven for row in rows)
    return (
        f"{len(rows)} budgets of {len({row.graph for row in rows})} graphs; "
        f"the exact solver proved its solution in {proven}.\n"
        f"Cost over the exact cost: median {statistics.median(ratios):.3f}, worst {max(ratios):.3f}, "
        f"within 5% in {within} of {len(ratios)}.\n"
        f"Budgets that only the exact solver kept: {missed}. "
        f"Worse than square-root checkpointing: {worse} of {len(rooted)} where that keeps the budget."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="at most this long for each exact solution")
    parser.add_argument("--only", default="", help="graphs whose name contains this; writes no table")
    arguments = parser.parse_args()
    rows: list[OptimalityRow] = []
    for name, net in GRAPHS.items():
        if arguments.only not in name:
            continue
        for row in compare(name, net.problem(), arguments.seconds):
            rows.append(row)
            print(table([row]).splitlines()[-1], f"{row.exact_seconds:.1f} s", flush=True)
        if not arguments.only:
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(
                f"# Against an exact solver\n\n{__doc__.split(chr(10) * 2)[2]}\n{summary(rows)}\n\n{table(rows)}\n"
            )
    print(summary(rows))


if __name__ == "__main__":
    main()
