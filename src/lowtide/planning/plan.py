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
from lowtide.tide.explain import breakdown_at
from lowtide.tide.kinds import SLACK
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes, format_count

JSON_SCHEMA_VERSION = 1

# What an action does. The first two change no result.
RECOMPUTE, ORDER, MICROBATCH, PRECISION = "recompute", "order", "microbatch", "precision"

# Parts of a rewrite that have another name in a file.
_STORED_NAMES = {"barriers": "joints"}


# Kinds of what the forward and the backward pass make.
_OF_THE_PASSES = ("activations", "gradients", "workspace")


@dataclass(frozen=True)
class Held:
    """What a step holds before it begins. No plan lowers it, so every plan takes at least `total_bytes`."""

    variables_bytes: int
    """Weights and optimizer state, as requested."""
    total_bytes: int
    """The same with the batch, constants and metrics."""

    @staticmethod
    def of(before: Tide) -> Held:
        """Return what the plain step holds before it begins."""
        kinds = breakdown_at(before, 0)
        # TensorFlow may keep zeros for sums of gradients from step to step; they are as large as the batch makes them.
        total = sum(size for kind, size in kinds.items() if kind not in (SLACK, *_OF_THE_PASSES))
        return Held(kinds["weights"] + kinds["optimizer"], total)


class NoPlanError(LowtideError):
    """No plan reaches the budget: the smallest plan that was found, a lower bound, and what may go lower."""

    def __init__(
        self,
        problem: str,
        budget_bytes: int,
        smallest_bytes: int | None,
        frontier: Sequence[FrontierPoint] = (),
        allowable: tuple[str, ...] = (),
        before: Tide | None = None,
        untried_pieces: int | None = None,
    ) -> None:
        self.before = before
        self.budget_bytes = budget_bytes
        self.smallest_bytes = smallest_bytes
        """The safe bound of the smallest plan that was simulated; None if the budget is below `held`."""
        self.held = None if before is None else Held.of(before)
        self.frontier = frontier
        self.allowable = allowable
        self.untried_pieces = untried_pieces
        """The smallest number of micro-batches that was not tried, since it was expected to miss the budget as well."""
        super().__init__(problem, given=f"a budget of {format_bytes(budget_bytes)}", cure=self._cure())

    def _cure(self) -> str:
        held, batch = self.held, "use a smaller batch, or give a larger budget"
        if self.smallest_bytes is None:
            assert held is not None
            if held.variables_bytes >= self.budget_bytes:
                alone = f"weights and optimizer state alone take {format_bytes(held.variables_bytes)}"
                return f"{alone}: use a smaller model or an optimizer with less state, or give a larger budget"
            return f"weights, optimizer state and the batch alone take {format_bytes(held.total_bytes)}: {batch}"
        found = f"the smallest plan that was found takes {format_bytes(self.smallest_bytes)}"
        if self.untried_pieces is not None:
            found += f" ({self.untried_pieces} micro-batches and more were not tried: they are expected to miss it too)"
        lower = f"allow {' or '.join(self.allowable)} to try lower" if self.allowable else batch
        if held is not None:
            found += f", and weights, optimizer state and the batch alone {format_bytes(held.total_bytes)}"
        return f"{found}; {lower}"

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data, with a `schema_version`; `fits` distinguishes it from a plan."""
        return {
            "schema_version": JSON_SCHEMA_VERSION,
            "budget_bytes": self.budget_bytes,
            "fits": False,
            "summary": str(self),
            "smallest_bytes": self.smallest_bytes,
            "held_bytes": None if self.held is None else self.held.total_bytes,
            "frontier": [asdict(point) for point in self.frontier],
            "allowable": list(self.allowable),
        }


@dataclass(frozen=True)
class Action:
    """One change of a plan to a step."""

    kind: str
    subject: str
    """The node that is rematerialized or waits, or what is split or cast."""
    op: str | None
    layer: str | None
    saves_bytes: int
    """The size of what is not kept meanwhile."""
    costs_us: float
    reason: str


@dataclass(frozen=True)
class FrontierPoint:
    """What a budget costs."""

    peak_bytes: int
    slowdown: float
    recomputed: int
    is_estimate: bool = False
    """Whether the planner estimated it from its own memory profile; otherwise the rewritten step was simulated."""


class LazyFrontier(Sequence[FrontierPoint]):
    """What other budgets would cost, computed at the first access: it takes another search."""

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

    `before` is the plain step, `after` the rewritten step, traced again and simulated. A plan that changes nothing has
    no actions.
    """

    target: str
    budget_bytes: int
    before: Tide
    after: Tide
    slowdown: float
    """Estimated extra time, as a share of the plain step's: 0.14 is 14% more."""
    actions: tuple[Action, ...] = ()
    frontier: Sequence[FrontierPoint] = ()
    rewrite: Rewrite = field(default_factory=Rewrite)
    fingerprint: str = ""
    """Identifies the traced graph that the rewrite is made for."""
    pieces: int = 1
    """The number of micro-batches."""
    precision: str | None = None
    """The Keras dtype policy that the plan sets, if any."""
    notes: tuple[str, ...] = ()
    bind: Callable[[], Callable[..., Any]] | None = field(default=None, repr=False)
    """Returns the planned step; None for a plan that was read from a file without its step."""

    @property
    def peak_bytes(self) -> int:
        """The step does not run out of memory under a hard limit of this many bytes."""
        return self.after.safe_bytes

    @property
    def batch_size(self) -> int | None:
        return self.before.batch_size

    @property
    def changes_nothing(self) -> bool:
        """Whether the plain step fits."""
        return not self.actions

    @property
    def recomputed(self) -> int:
        """The number of rematerialized tensors."""
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
        """Return the number of actions of a kind."""
        return sum(action.kind == kind for action in self.actions)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan to one file, which `lt.load_plan` and `lowtide explain` read."""
        storage.save(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the content of the plan's file."""
        header = {
            "target": self.target,
            "budget_bytes": self.budget_bytes,
            "slowdown": self.slowdown,
            "fingerprint": self.fingerprint,
            "pieces": self.pieces,
            "precision": self.precision,
            "notes": self.notes,
            "actions": [asdict(action) for action in self.actions],
            "frontier": [asdict(point) for point in self.frontier],
            "rewrite": {_STORED_NAMES.get(name, name): rows for name, rows in asdict(self.rewrite).items()},
        }
        return storage.to_bytes(header, {"before": self.before, "after": self.after})

    @staticmethod
    def load(path: str | PathLike[str]) -> Plan:
        """Read a plan that `save` wrote, without its step; `lt.load_plan` also binds it to its step."""
        return storage.load(path, _from_header)

    @staticmethod
    def from_bytes(content: bytes, given: object) -> Plan:
        """Return the plan in the content of a file; errors refer to it as `given`."""
        return storage.from_bytes(content, given, _from_header)

    @property
    def changes_results(self) -> bool:
        """Whether the planned step may return other numbers; order and rematerialization never change them."""
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
        """Return the plan as plain data for a report, with a `schema_version`."""
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
        costs = [(format_bytes(point.peak_bytes), format_slowdown(point.slowdown)) for point in self.frontier]
        before = None if self.changes_nothing else self.before
        return notebook.render(self.target, self.summary(), before, self.after, self.budget_bytes, costs)


def _from_header(header: dict[str, Any], tides: dict[str, Tide]) -> Plan:
    """Return the plan that a file contains."""
    precision = header["precision"]
    names = {stored: name for name, stored in _STORED_NAMES.items()}
    return Plan(
        before=tides["before"],
        after=tides["after"],
        target=str(header["target"]),
        budget_bytes=int(header["budget_bytes"]),
        slowdown=float(header["slowdown"]),
        fingerprint=str(header["fingerprint"]),
        pieces=int(header["pieces"]),
        precision=None if precision is None else str(precision),
        notes=tuple(map(str, header["notes"])),
        actions=tuple(Action(**action) for action in header["actions"]),
        frontier=tuple(FrontierPoint(**point) for point in header["frontier"]),
        rewrite=Rewrite(**{names.get(name, name): tuple(map(tuple, rows)) for name, rows in header["rewrite"].items()}),
    )


def format_slowdown(slowdown: float) -> str:
    """Return extra time as text: "+14%", "+0%", "-3%"."""
    # Rounded first, to avoid "-0%".
    percent = round(100 * slowdown)
    return f"{percent:+d}%"


def _count_of(count: int, noun: str, done: str) -> str | None:
    return f"{format_count(count, noun)} {done}" if count else None
