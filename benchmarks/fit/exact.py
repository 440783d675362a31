"""The cheapest schedule there is: the problem as intervals in time, for the solver CP-SAT.

The model is the planner's own (the base order, each task at most twice), but freer in one thing: what runs again may
do so in any slot, not only before a reader. Each value has one life or two, a life lasts until its last reader, and
at no time are more bytes alive than the budget.
"""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model

from lowtide.planning.problem import PlanningProblem

# Costs are whole numbers to the solver.
_SCALE = 1000


@dataclass
class Exact:
    """What the solver found, and below what no schedule can be."""

    cost_us: float | None
    bound_us: float
    proven: bool
    """Whether it is the cheapest, or it is certain that there is none."""
    slots: dict[int, int]
    """Where each task that runs again does so."""


def solve(problem: PlanningProblem, budget_bytes: int, seconds: float, slots: dict[int, int] | None = None) -> Exact:
    """Solve a problem; `slots` is a schedule to begin with: where each task that runs again does so."""
    builder = _Builder(problem, budget_bytes)
    if slots is not None:
        builder.begin_with(slots)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    # Each worker searches in another way; those that solve linear relaxations are what proves a bound.
    solver.parameters.num_workers = 8
    solver.parameters.linearization_level = 2
    solver.parameters.random_seed = 1
    status = solver.solve(builder.model)
    if status == cp_model.INFEASIBLE:
        return Exact(None, float("inf"), True, {})
    bound = solver.best_objective_bound / _SCALE
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Exact(None, bound, False, {})
    again = {task: solver.value(builder.slot[task]) for task, each in builder.again.items() if solver.value(each)}
    return Exact(solver.objective_value / _SCALE, bound, status == cp_model.OPTIMAL, again)


class _Builder:
    def __init__(self, problem: PlanningProblem, budget_bytes: int) -> None:
        self.problem = problem
        self.count = len(problem)
        self.width = self.count + 1
        self.end = self.count * self.width - 1
        self.model = cp_model.CpModel()
        self.maker = problem.makers
        self.again: dict[int, cp_model.IntVar] = {}
        self.slot: dict[int, cp_model.IntVar] = {}
        self.intervals: list[tuple[cp_model.IntervalVar, int]] = []
        for task in range(self.count - 1):
            if problem.can_remat[task] and problem.makes[task]:
                self.again[task] = self.model.new_bool_var(f"again{task}")
                self.slot[task] = self.model.new_int_var(task + 1, self.count - 1, f"slot{task}")
        self.first_end = [
            self.model.new_int_var(self._key(maker), self.end, f"end{v}") for v, maker in enumerate(self.maker)
        ]
        self.second_end = {
            value: self.model.new_int_var(0, self.end, f"second{value}")
            for value, maker in enumerate(self.maker)
            if maker in self.again
        }
        self.reading: dict[tuple[int, int, bool], tuple[cp_model.IntVar, cp_model.IntVar | None]] = {}
        for task in range(self.count):
            for value in problem.reads[task]:
                self._read(task, value, False)
                if task in self.again:
                    self._read(task, value, True)
        self._last()
        self.late: dict[tuple[int, bool], cp_model.IntVar] = {}
        for task in range(self.count):
            self._take(task, False)
            if task in self.again:
                self._take(task, True)
        self._lives()
        self._relax(budget_bytes)
        intervals, sizes = zip(*self.intervals, strict=True)
        self.model.add_cumulative(intervals, sizes, budget_bytes - problem.base_bytes)
        self.model.minimize(sum(round(problem.cost_us[task] * _SCALE) * each for task, each in self.again.items()))

    def _key(self, task: int) -> int:
        return task * self.width + self.count

    def _copy_key(self, task: int) -> cp_model.LinearExpr:
        return self.slot[task] * self.width + task

    def _read(self, task: int, value: int, copy: bool) -> None:
        """A reader reads the first life or the second, and that lasts as long."""
        model = self.model
        key = self._copy_key(task) if copy else self._key(task)
        maker = self.maker[value]
        first = model.new_bool_var(f"first{task},{value},{copy}")
        model.add(self.first_end[value] >= key).only_enforce_if(first)
        second = None
        if maker in self.again and maker < task:
            second = model.new_bool_var(f"second{task},{value},{copy}")
            model.add_implication(second, self.again[maker])
            model.add(self.second_end[value] >= key).only_enforce_if(second)
            slot = self.slot[task] if copy else task
            model.add(self.slot[maker] <= slot).only_enforce_if(second)
        options = [first] if second is None else [first, second]
        if copy:
            model.add_bool_or([*options, self.again[task].negated()])
        else:
            model.add_bool_or(options)
        self.reading[task, value, copy] = first, second

    def _last(self) -> None:
        for value, lasting in enumerate(self.problem.lasting):
            if not lasting:
                continue
            if self.maker[value] not in self.again:
                self.model.add(self.first_end[value] == self.end)
                continue
            first = self.model.new_bool_var(f"lasts{value}")
            self.model.add(self.first_end[value] == self.end).only_enforce_if(first)
            self.model.add(self.second_end[value] == self.end).only_enforce_if(first.negated())
            self.model.add_implication(first.negated(), self.again[self.maker[value]])

    def _take(self, task: int, copy: bool) -> None:
        """What takes the place of something that ends here is counted one moment later."""
        model = self.model
        key = self._copy_key(task) if copy else self._key(task)
        used: dict[int, list[cp_model.IntVar]] = {}
        for made, source in self.problem.reuses[task]:
            first, second = self.reading[task, source, copy]
            ways = []
            for reads, end in ((first, self.first_end[source]), (second, self.second_end.get(source))):
                if reads is not None:
                    way = model.new_bool_var("")
                    model.add_implication(way, reads)
                    model.add(end <= key).only_enforce_if(way)
                    ways.append(way)
            taken = model.new_bool_var("")
            model.add_bool_or([*ways, taken.negated()])
            for value in (made, source):
                used.setdefault(value, []).append(taken)
            used.setdefault(~made, []).append(taken)
        for value, all_taken in used.items():
            model.add_at_most_one(all_taken)
            if value < 0:
                late = model.new_bool_var("")
                model.add(late <= sum(all_taken))
                self.late[~value, copy] = late

    def _lives(self) -> None:
        model, problem = self.model, self.problem
        for value, size in enumerate(problem.sizes):
            maker = self.maker[value]
            start = self._key(maker) + self.late.get((value, False), 0)
            length = model.new_int_var(0, self.end + 1, "")
            interval = model.new_interval_var(start, length, self.first_end[value] + 1, f"life{value}")
            self.intervals.append((interval, size))
            if maker in self.again:
                start = model.new_int_var(0, self.end + 1, "")
                model.add(start == self._copy_key(maker) + self.late.get((value, True), 0))
                model.add(self.second_end[value] >= self._copy_key(maker)).only_enforce_if(self.again[maker])
                length = model.new_int_var(0, self.end + 1, "")
                interval = model.new_optional_interval_var(
                    start, length, self.second_end[value] + 1, self.again[maker], f"again{value}"
                )
                self.intervals.append((interval, size))
        for task, size in enumerate(problem.workspace):
            if size:
                self.intervals.append((model.new_fixed_size_interval_var(self._key(task), 1, ""), size))
                if task in self.again:
                    copy = model.new_optional_fixed_size_interval_var(self._copy_key(task), 1, self.again[task], "")
                    self.intervals.append((copy, size))

    def _relax(self, budget_bytes: int) -> None:
        """State once more, as inequalities, what the intervals imply: without them the solver sees no lower bound."""
        model, problem, count = self.model, self.problem, self.count
        runs: dict[tuple[int, int], cp_model.IntVar] = {}
        for task, again in self.again.items():
            slots = range(task + 1, count)
            here = [model.new_bool_var(f"runs{task},{slot}") for slot in slots]
            runs |= {(task, slot): each for slot, each in zip(slots, here, strict=True)}
            model.add(sum(here) == again)
            for slot, each in zip(slots, here, strict=True):
                model.add(self.slot[task] == slot).only_enforce_if(each)
        # Whether a value is still there after a task of the base order.
        after = {
            (value, task): model.new_bool_var(f"after{value},{task}")
            for value, maker in enumerate(self.maker)
            for task in range(maker, count)
        }
        for (value, task), there in after.items():
            maker = self.maker[value]
            if task > maker:
                model.add(there <= after[value, task - 1] + runs.get((maker, task), 0))
        for task in range(count):
            for value in problem.reads[task]:
                maker = self.maker[value]
                model.add(after[value, task - 1] + runs.get((maker, task), 0) >= 1)
                for slot in range(task + 1, count) if task in self.again else ():
                    model.add(runs[task, slot] <= after[value, slot - 1] + runs.get((maker, slot), 0))
            own = {*problem.reads[task], *problem.makes[task]}
            others = [
                (problem.sizes[value], there) for (value, at), there in after.items() if at == task and value not in own
            ]
            in_place = [problem.sizes[value] * self.late[value, False] for value in own if (value, False) in self.late]
            needed = problem.base_bytes + problem.workspace[task] + sum(problem.sizes[value] for value in own)
            model.add(sum(size * there for size, there in others) - sum(in_place) <= budget_bytes - needed)

    def begin_with(self, slots: dict[int, int]) -> None:
        for task, again in self.again.items():
            self.model.add_hint(again, task in slots)
            if task in slots:
                self.model.add_hint(self.slot[task], slots[task])
