"""A forecast: the memory of a pipeline at its peak, stage by stage, and the changes that would reduce it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from lowtide.feed.forecast.advice import Advice, advise
from lowtide.feed.forecast.allocators import C_LIBRARY, RETURNED_BYTES, Allocator
from lowtide.feed.forecast.stage import AUTOTUNE, WORKS_AHEAD, Element, Stage
from lowtide.feed.forecast.stage_memory import (
    AUTOTUNED_AHEAD,
    AUTOTUNED_AHEAD_AT_MOST,
    BAKED_TIMES_AT_START,
    CAPTURED_TIMES_AT_START,
    CONSTANT_TIMES,
    Holding,
    hold,
)
from lowtide.feed.forecast.text_table import align
from lowtide.units import format_bytes, parse_bytes

JSON_SCHEMA_VERSION = 1
# A consumer holds an element while the next one is handed over.
_TAKEN_AT_MOST = 2
# The memory of threads, functions and iterators, which does not depend on the elements.
_STARTED_BYTES = 6 << 20
# The same at most: threads that run for the first time take their stacks and their share of the C library's memory.
_STARTED_AT_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class Bound:
    """The upper bound of a forecast, by what it consists of."""

    held_bytes: int
    """Full buffers, calls and batches in flight, and the elements of the consumer. These follow from the stages."""
    lost_bytes: int
    """What the allocator may lose to holes and rounding, measured as a share of the tensors."""
    tuned_bytes: int
    """The growth of autotuned prefetches up to 16 elements."""
    started_bytes: int
    """Threads, functions and iterators, measured."""

    @property
    def bytes(self) -> int:
        """The sum."""
        return self.held_bytes + self.lost_bytes + self.tuned_bytes + self.started_bytes


@dataclass(frozen=True)
class Forecast:
    """The memory of the stages of a pipeline at the peak."""

    pipeline: Stage
    """The last stage, after TensorFlow's rewrites."""
    holdings: tuple[Holding, ...]
    notes: tuple[str, ...] = ()
    allocator: Allocator = C_LIBRARY
    """Where the memory of tensors will come from."""

    @property
    def taken(self) -> Element:
        """An element of the pipeline, as its consumer takes it."""
        return self.pipeline.element

    @property
    def taken_elements(self) -> int:
        """The number of elements that the consumer holds: one is in use while the next one is handed over."""
        is_large = self.taken.content_bytes >= RETURNED_BYTES
        is_made_on_request = self.pipeline.kind == "Prefetch" and self.pipeline.source.kind not in WORKS_AHEAD
        # A large element is returned to the system before the next one is made, unless a thread has made that already.
        return 1 if is_large and is_made_on_request else 2

    @property
    def taken_bytes(self) -> int:
        """The size of the elements that the consumer holds."""
        return self.taken_elements * self.taken.held_bytes

    @property
    def peak_bytes(self) -> int:
        """The expected peak."""
        running = sum(each.bytes for each in self.holdings) + self.taken_bytes
        return _STARTED_BYTES + max(running, self.starting_bytes)

    @property
    def starting_bytes(self) -> int:
        """The memory while the pipeline starts, before its buffers are filled."""
        stages = [each.stage for each in self.holdings]
        return (
            BAKED_TIMES_AT_START * sum(each.baked_bytes for each in stages)
            + CAPTURED_TIMES_AT_START * sum(each.captured_bytes for each in stages)
            + CONSTANT_TIMES * sum(each.constant_bytes for each in stages)
        )

    @property
    def safe_bytes(self) -> int:
        """An upper bound; `bound` has its parts."""
        return self.bound.bytes

    @property
    def bound(self) -> Bound:
        """The parts of the upper bound."""
        # The consumer still has an element when it takes the next one.
        taken = _enlarge(self.taken, max(_TAKEN_AT_MOST, self.taken_elements) * self.taken.held_bytes)
        held, tuned = taken, 0
        lost = taken * self._lost_share(self.taken, self.holdings[0].threads)
        for each in self.holdings:
            element = each.stage.element
            # A shuffle, a cache and the gathered elements of a batch hold the elements of the stage before.
            made = each.stage.inputs[0].element if each.stage.inputs else element
            buffered, working = _enlarge(made, each.held_bytes), _enlarge(made, each.most_bytes - each.held_bytes)
            held += buffered + working
            per_element = each.held_bytes // max(each.held_elements, 1)
            lost += buffered * self._lost_share(replace(made, content_bytes=per_element), each.threads)
            lost += working * self._lost_share(made, each.threads)
            if each.stage.kind == "Prefetch" and each.stage.numbers.get("buffer_size") == AUTOTUNE:
                grown = (AUTOTUNED_AHEAD_AT_MOST - AUTOTUNED_AHEAD) * _enlarge(element, element.held_bytes)
                tuned += int(grown * (1 + self._lost_share(element, 1)))
        held = max(held, self.starting_bytes)
        return Bound(held, int(lost), tuned, _STARTED_AT_MOST_BYTES)

    def _lost_share(self, element: Element, threads: int) -> float:
        return self.allocator.lost_share(element.content_bytes, threads, is_varying=element.uncertain_share > 0)

    @cached_property
    def advice(self) -> list[Advice]:
        """The changes that save memory, largest saving first."""
        return advise(self.holdings)

    def fits(self, budget: str | int) -> bool:
        """Whether the peak is within a budget."""
        return self.peak_bytes <= parse_bytes(budget)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        return {
            "schema_version": JSON_SCHEMA_VERSION,
            "peak_bytes": self.peak_bytes,
            "safe_bytes": self.safe_bytes,
            "bound": asdict(self.bound),
            "taken_bytes": self.taken_bytes,
            "stages": [
                {
                    "name": each.name,
                    "kind": each.stage.kind,
                    "depth": each.depth,
                    "bytes": each.bytes,
                    "held_bytes": each.held_bytes,
                    "held_elements": each.held_elements,
                    "working_bytes": each.working_bytes,
                    "element_bytes": each.stage.element.content_bytes,
                    "is_sampled": each.stage.element.is_sampled,
                    "elements": each.stage.count,
                }
                for each in self.holdings
            ],
            "advice": [{"what": each.what, "saves_bytes": each.saves_bytes} for each in self.advice],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        parts = [f"at the peak {format_bytes(self.peak_bytes)}, at most {format_bytes(self.safe_bytes)}", self.table()]
        parts += [f"- {each.what}: saves {format_bytes(each.saves_bytes)}" for each in self.advice]
        parts += [f"note: {note}" for note in self.notes]
        return "\n".join(parts)

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """The stages as texts: name, total size, size and number of the buffered elements, and size of one element."""
        rows = [
            (
                "consumer",
                format_bytes(self.taken_bytes),
                format_bytes(self.taken_bytes),
                f"{self.taken_elements}",
                "",
            )
        ]
        for each in self.holdings:
            about = "about " if each.stage.element.is_sampled else ""
            rows.append(
                (
                    "  " * each.depth + each.name,
                    format_bytes(each.bytes),
                    format_bytes(each.held_bytes),
                    f"{each.held_elements:,}",
                    about + format_bytes(each.stage.element.content_bytes),
                )
            )
        return rows

    def row_bytes(self) -> list[int]:
        """The total size of each of the rows."""
        return [self.taken_bytes, *(each.bytes for each in self.holdings)]

    def table(self) -> str:
        """The stages as a table, last stage first."""
        started = ("threads and functions", format_bytes(_STARTED_BYTES), "", "", "")
        return align([("stage", "takes", "holds", "elements", "of"), *self.rows(), started])


def _enlarge(element: Element, size: int) -> int:
    """The size that holds also if elements are larger than the samples."""
    return int(size * (1 + element.uncertain_share))


def forecast(pipeline: Stage, processors: int, allocator: Allocator = C_LIBRARY) -> Forecast:
    """Forecast the memory of a pipeline after TensorFlow's rewrites."""
    holdings = tuple(hold(pipeline, processors))
    found = Forecast(pipeline, holdings, (), allocator)
    return replace(found, notes=(_describe_bound(found), *_notes(holdings)))


def _describe_bound(found: Forecast) -> str:
    bound = found.bound
    parts = [
        f"{format_bytes(bound.held_bytes)} in buffers and in flight",
        f"{format_bytes(bound.lost_bytes)} in holes of {found.allocator.name}",
        f"{format_bytes(bound.tuned_bytes)} if prefetches are tuned to {AUTOTUNED_AHEAD_AT_MOST} elements",
        f"{format_bytes(bound.started_bytes)} of threads and functions",
    ]
    sizes = (bound.held_bytes, bound.lost_bytes, bound.tuned_bytes, bound.started_bytes)
    return "the upper bound: " + ", ".join(part for part, size in zip(parts, sizes, strict=True) if size)


def _notes(holdings: tuple[Holding, ...]) -> tuple[str, ...]:
    notes = [f"{each.name}: {each.stage.note}" for each in holdings if each.stage.note is not None]
    for each in holdings:
        stage = each.stage
        if stage.kind == "Cache" and not stage.numbers.get("is_file") and stage.source.count is None:
            notes.append("Cache: how many elements it will keep is not known, so it is not counted")
        if stage.kind == "Prefetch" and stage.numbers.get("buffer_size") == AUTOTUNE:
            notes.append(
                f"{each.name}: TensorFlow sizes it while it runs; {AUTOTUNED_AHEAD} elements are counted, it may "
                f"grow to {AUTOTUNED_AHEAD_AT_MOST} and more if the pipeline is faster than its consumer"
            )
    return tuple(dict.fromkeys(notes))
