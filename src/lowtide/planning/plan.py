"""The Plan: how a step's memory is lowered, as data."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any, overload

from lowtide.errors import LowtideError
from lowtide.planning import notebook, storage
from lowtide.planning.rewrite.rewrite import Rewrite
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes

JSON_SCHEMA_VERSION = 1

# What an action does. The first two change no result.
RECOMPUTE, ORDER, MICROBATCH, PRECISION = "recompute", "order", "microbatch", "precision"


class NoPlanError(LowtideError):
    """No plan reaches the budget: how low the search came, and what would have to be allowed to go lower."""

    def __init__(
        self,
        problem: str,
        budget_bytes: int,
        smallest_bytes: int,
        frontier: Sequence[FrontierPoint] = (),
        allowable: tuple[str, ...] = (),
        before: Tide | None = None,
    ) -> None:
        self.before = before
        self.budget_bytes = budget_bytes
        self.smallest_bytes = smallest_bytes
        self.frontier = frontier
        self.allowable = allowable
        lower = "use a smaller batch, or give a larger budget"
        if allowable:
            lower = f"allow {' or '.join(allowable)} to go lower"
        cure = f"the smallest that was found takes {format_bytes(smallest_bytes)}; {lower}"
        super().__init__(problem, given=f"a budget of {format_bytes(budget_bytes)}", cure=cure)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data, with a `schema_version`; `fits` tells it from a plan's."""
        return {
            "schema_version": JSON_SCHEMA_VERSION,
            "budget_bytes": self.budget_bytes,
            "fits": False,
            "summary": str(self),
            "smallest_bytes": self.smallest_bytes,
            "frontier": [asdict(point) for point in self.frontier],
            "allowable": list(self.allowable),
        }


@dataclass(frozen=True)
class Action:
    """One thing that a plan does to a step."""

    kind: str
    subject: str
    """The node that is computed again or waits, or what is split or cast."""
    op: str | None
    layer: str | None
    saves_bytes: int
    """What is not held meanwhile."""
    costs_us: float
    reason: str


@dataclass(frozen=True)
class FrontierPoint:
    """What another budget would cost, by the planner's own estimate."""

    peak_bytes: int
    slowdown: float
    recomputed: int


class Outlook(Sequence[FrontierPoint]):
    """What other budgets would cost, worked out when somebody first looks: it is a search of its own."""

    def __init__(self, find: Callable[[], tuple[FrontierPoint, ...]]) -> None:
        self._find = find

    @cached_property
    def points(self) -> tuple[FrontierPoint, ...]:
        return self._find()

    @overload
    def __getitem__(self, index: int) -> FrontierPoint: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[FrontierPoint, ...]: ...

    def __getitem__(self, index: int | slice) -> FrontierPoint | tuple[FrontierPoint, ...]:
        return self.points[index]

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True, eq=False)
class Plan:
    """A way to run a step within a budget.

    `before` is the step as it is, `after` the step as rewritten: traced again and looked at like any other. A plan
    that changes nothing has no actions.
    """

    target: str
    budget_bytes: int
    before: Tide
    after: Tide
    slowdown: float
    """Estimated time on top, as a share of the plain step's: 0.14 is 14% more."""
    actions: tuple[Action, ...] = ()
    frontier: Sequence[FrontierPoint] = ()
    rewrite: Rewrite = field(default_factory=Rewrite)
    fingerprint: str = ""
    """Of the traced graph that the rewrite is made for."""
    pieces: int = 1
    """Into how many micro-batches a batch is split."""
    precision: str | None = None
    """The Keras dtype policy that the step runs in, where it is another one."""
    notes: tuple[str, ...] = ()
    bind: Callable[[], Callable[..., Any]] | None = field(default=None, repr=False)
    """Makes the planned step; None for a plan that was read from a file without its step."""

    @property
    def peak_bytes(self) -> int:
        """A hard limit of this many bytes does not run out."""
        return self.after.safe_bytes

    @property
    def batch_size(self) -> int | None:
        return self.before.batch_size

    @property
    def changes_nothing(self) -> bool:
        """Whether the step fits as it is."""
        return not self.actions

    @property
    def recomputed(self) -> int:
        """How many tensors are computed a second time."""
        return self.count(RECOMPUTE)

    def apply(self) -> Callable[..., Any]:
        """Return the planned step: called like the original, it returns what the original returns."""
        if self.bind is None:
            raise LowtideError(
                "a plan that was read from a file does not know its step",
                given=self.target,
                cure="load it with lt.load_plan(path, step, *specs)",
            )
        return self.bind()

    def count(self, kind: str) -> int:
        """How many actions are of a kind."""
        return sum(action.kind == kind for action in self.actions)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan to one file, which `lt.load_plan` and `lowtide explain` read."""
        storage.save(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> Plan:
        """Read a plan that `save` wrote, to look at; `lt.load_plan` also ties it to its step."""
        return storage.load(path)

    @property
    def changes_results(self) -> bool:
        """Whether the planned step may end in other numbers than the plain one; order and recomputation never do."""
        return self.pieces > 1 or self.precision is not None

    def summary(self) -> str:
        """Return the plan in one line."""
        if self.changes_nothing:
            return f"{format_bytes(self.before.safe_bytes)} fits {format_bytes(self.budget_bytes)} as it is"
        unchanged = "" if self.changes_results else "; results unchanged"
        return (
            f"{format_bytes(self.before.safe_bytes)} -> {format_bytes(self.peak_bytes)}, "
            f"{format_slowdown(self.slowdown)} time: {self.changes()}{unchanged}"
        )

    def changes(self) -> str:
        """Return what the plan changes: "38 tensors recomputed, 4 micro-batches"."""
        changes = [
            _count_of(self.recomputed, "tensor", "recomputed"),
            _count_of(self.count(ORDER), "operation", "reordered"),
            f"{self.pieces:,} micro-batches" if self.pieces > 1 else None,
            self.precision,
        ]
        return ", ".join(filter(None, changes))

    def to_dict(self, *, top: int = 10) -> dict[str, Any]:
        """Return what a reader of the report needs as plain data, with a `schema_version`."""
        return {
            "schema_version": JSON_SCHEMA_VERSION,
            "target": self.target,
            "batch_size": self.batch_size,
            "budget_bytes": self.budget_bytes,
            "fits": self.peak_bytes <= self.budget_bytes,
            "summary": self.summary(),
            "before_bytes": self.before.safe_bytes,
            "peak_bytes": self.peak_bytes,
            "slowdown": self.slowdown,
            "pieces": self.pieces,
            "precision": self.precision,
            "actions": [asdict(action) for action in self.actions],
            "frontier": [asdict(point) for point in self.frontier],
            "fingerprint": self.fingerprint,
            "notes": list(self.notes),
            "before": self.before.to_dict(top=top),
            "after": self.after.to_dict(top=top),
        }

    def to_json(self, *, top: int = 10, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(top=top), indent=indent)

    def __repr__(self) -> str:
        return f"<Plan of {self.target}: {self.summary()}>"

    def _repr_html_(self) -> str:
        return notebook.render(self)


def format_slowdown(slowdown: float) -> str:
    """Return time on top as a person reads it: "+14%", "+0%", "-3%"."""
    # Rounded first, for "-0%" says nothing that "+0%" does not.
    percent = round(100 * slowdown)
    return f"{percent:+d}%"


def _count_of(count: int, noun: str, done: str) -> str | None:
    return f"{count:,} {noun}{'' if count == 1 else 's'} {done}" if count else None
