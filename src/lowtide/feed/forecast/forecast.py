"""A forecast: what a pipeline will hold at its peak, stage by stage, and what would make that less."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lowtide.feed.forecast.advice import Advice, advise
from lowtide.feed.forecast.stage import AUTOTUNE, WORKS_AHEAD, Element, Stage
from lowtide.feed.forecast.stage_memory import (
    AUTOTUNED_AHEAD,
    AUTOTUNED_AHEAD_AT_MOST,
    BAKED_TIMES_AT_START,
    CAPTURED_TIMES_AT_START,
    CONSTANT_TIMES,
    RETURNED_BYTES,
    Holding,
    hold,
)
from lowtide.feed.forecast.text_table import align
from lowtide.units import format_bytes, parse_bytes

JSON_SCHEMA_VERSION = 1
# Threads, functions and iterators of a pipeline, however small its elements are.
_STARTED_BYTES = 6 << 20
# Below this size the C library's allocator takes up to twice what elements are, because it cannot use the room again
# that those before them have left; measured from 1 KiB on.
_SCATTERED_BYTES = 256 << 10
# What allocators keep of what was freed, in the worst of the pipelines that were measured.
_ALLOCATOR_TIMES = 1.2


@dataclass(frozen=True)
class Forecast:
    """What the stages of a pipeline hold at the peak."""

    pipeline: Stage
    """As TensorFlow will run it."""
    holdings: tuple[Holding, ...]
    processors: int
    notes: tuple[str, ...] = ()

    @property
    def taken(self) -> Element:
        """What the pipeline gives at a time."""
        return self.pipeline.element

    @property
    def taken_elements(self) -> int:
        """How many elements whoever takes them has: one while the next one is handed over."""
        is_large = self.taken.content_bytes >= RETURNED_BYTES
        is_made_then = self.pipeline.kind == "Prefetch" and self.pipeline.source.kind not in WORKS_AHEAD
        # The next large one is not begun before the last one is gone, unless a thread has it ready.
        return 1 if is_large and is_made_then else 2

    @property
    def taken_bytes(self) -> int:
        """What whoever takes the elements has of them."""
        return self.taken_elements * self.taken.held_bytes

    @property
    def peak_bytes(self) -> int:
        """What is expected at the peak."""
        running = sum(each.bytes for each in self.holdings) + self.taken_bytes
        return _STARTED_BYTES + max(running, self.starting_bytes)

    @property
    def starting_bytes(self) -> int:
        """What is there while the pipeline starts, before its buffers are filled."""
        stages = [each.stage for each in self.holdings]
        return (
            BAKED_TIMES_AT_START * sum(each.baked_bytes for each in stages)
            + CAPTURED_TIMES_AT_START * sum(each.captured_bytes for each in stages)
            + CONSTANT_TIMES * sum(each.constant_bytes for each in stages)
        )

    @property
    def safe_bytes(self) -> int:
        """What is not exceeded: with small elements scattered by the C library, and prefetches that have grown."""
        scattered = sum(
            each.held_bytes
            for each in self.holdings
            if each.held_elements and each.held_bytes // each.held_elements < _SCATTERED_BYTES
        )
        ahead = sum(
            (AUTOTUNED_AHEAD_AT_MOST - AUTOTUNED_AHEAD) * each.stage.element.held_bytes
            for each in self.holdings
            if each.stage.kind == "Prefetch" and each.stage.numbers.get("buffer_size") == AUTOTUNE
        )
        return int(self.peak_bytes * _ALLOCATOR_TIMES) + scattered + ahead

    @cached_property
    def advice(self) -> list[Advice]:
        """What to change, with what it saves, the largest first."""
        return advise(self.holdings)

    def fits(self, budget: str | int) -> bool:
        """Whether the peak is within a budget."""
        return self.peak_bytes <= parse_bytes(budget)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        return {
            "schema_version": JSON_SCHEMA_VERSION,
            "peak_bytes": self.peak_bytes,
            "safe_bytes": self.safe_bytes,
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
        """The stages as texts: name, what it takes in all, what waits in it, in how many elements, and its element."""
        rows = [
            (
                "whoever takes them",
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
        """What each of the rows takes."""
        return [self.taken_bytes, *(each.bytes for each in self.holdings)]

    def table(self) -> str:
        """The stages, the last one first."""
        started = ("threads and functions", format_bytes(_STARTED_BYTES), "", "", "")
        return align([("stage", "takes", "holds", "elements", "of"), *self.rows(), started])


def forecast(pipeline: Stage, processors: int) -> Forecast:
    """What a pipeline that TensorFlow has rewritten will hold."""
    holdings = tuple(hold(pipeline, processors))
    return Forecast(pipeline, holdings, processors, _notes(holdings))


def _notes(holdings: tuple[Holding, ...]) -> tuple[str, ...]:
    notes = [f"{each.name}: {each.stage.note}" for each in holdings if each.stage.note is not None]
    for each in holdings:
        stage = each.stage
        if stage.kind == "Cache" and not stage.numbers.get("is_file") and stage.source.count is None:
            notes.append("Cache: how many elements it will keep is not known, and it is not counted")
        if stage.kind == "Prefetch" and stage.numbers.get("buffer_size") == AUTOTUNE:
            notes.append(
                f"{each.name}: TensorFlow sizes it while it runs; {AUTOTUNED_AHEAD} elements are counted, it may "
                f"grow to {AUTOTUNED_AHEAD_AT_MOST} and more where the pipeline is faster than what takes from it"
            )
    return tuple(dict.fromkeys(notes))
