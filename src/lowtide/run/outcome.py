"""What came of a run: the tide of a steady step, and an explanation if it ran out of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.oom.cause import Evidence, explain_evidence
from lowtide.oom.heap import Heap, read_memory_dump
from lowtide.oom.log_reader import read_shortfalls
from lowtide.oom.log_report import Shortfall, explain_shortfall
from lowtide.oom.shortage import Request, Shortage
from lowtide.run.chunks import busiest_allocator, follow
from lowtide.run.graph_names import Names
from lowtide.run.heap_owners import Held, load_held
from lowtide.run.record import OWN, Record, load_record
from lowtide.run.recorded_tide import choose_step, recorded_tide
from lowtide.sources.profiles.xplane import read_profile
from lowtide.tide.columns import Building
from lowtide.tide.tide import Tide

if TYPE_CHECKING:
    from lowtide.run.launch import Ending


@dataclass(frozen=True)
class Outcome:
    """The tide of a steady step of a run, and what it ran short of; `problem` says why there is no tide."""

    tide: Tide | None
    predicted: Tide | None
    shortages: tuple[Shortage, ...]
    problem: str | None


def read_outcome(folder: Path, ending: Ending, target: str) -> Outcome:
    """Return what the files in `folder` say about a run."""
    record = load_record(folder)
    tide = _load(folder / "step.tide", target) or _without_names(folder, record, target)
    predicted = _load(folder / "predicted.tide", target)
    shortages = tuple(_shortages(folder, ending, target, record))
    problem = None if tide is not None or shortages else _why_no_tide(folder, record)
    return Outcome(tide, predicted, shortages, problem)


def _load(path: Path, target: str) -> Tide | None:
    return replace(Tide.load(path), target=target) if path.exists() else None


def _without_names(folder: Path, record: Record | None, target: str) -> Tide | None:
    """The tide of a process that was killed before it could look at its step; variables and scopes have names."""
    windows = () if record is None else record.windows
    profiles = [read_profile(folder / window.profile) for window in windows]
    allocator = busiest_allocator(profiles)
    chosen = None if allocator is None else choose_step(follow(windows, profiles, allocator))
    if record is None or chosen is None:
        return None
    places = [place for window in windows for rows in window.places.values() for place in rows]
    names = Names(layers=frozenset(place.layer for place in places if place.layer is not None))
    return recorded_tide(
        *chosen,
        names,
        target=target,
        batch_size=None,
        limit_bytes=record.limit_bytes,
        building=Building(0, 0, 0, None),
        notes=(*record.notes, "the process ended before its step could be looked at, so some names are missing"),
    )


def _why_no_tide(folder: Path, record: Record | None) -> str:
    failure = folder / "recorder-error.txt"
    if failure.exists():
        last = failure.read_text(encoding="utf-8").strip().splitlines()[-1]
        return f"the recorder failed, please report this: {last}"
    if record is None:
        return "nothing was recorded: the script did not import TensorFlow"
    if record.steps == 0:
        return "nothing was recorded: no training step ran (no tf.function, no session, no gradient tape)"
    why = "; ".join(record.notes) or "no step came to its end"
    return f"nothing was recorded: {why}"


def _shortages(folder: Path, ending: Ending, target: str, record: Record | None) -> Iterator[Shortage]:
    """Each time that memory ran out, as the log tells it; the last with all that the process itself knew."""
    with ending.log.open("rb") as log:
        # A look at the step after the script's end may itself find no memory left; that is no matter of the script's.
        heard = [each for each in read_shortfalls(log) if OWN not in (each.request.node or each.request.op or "")]
    shortfalls = _without_attempts(heard)
    held = load_held(folder)
    # Where messages are silenced, the allocator's dump is the only witness.
    if not shortfalls and (held is None or ending.as_exit_code == 0):
        return
    for shortfall in shortfalls[:-1]:
        yield explain_shortfall(shortfall, target)
    last = shortfalls[-1] if shortfalls else Shortfall(Request(), None, 0)
    if held is None:
        yield explain_shortfall(last, target)
    else:
        yield _explain(folder, last, held, target, record)


def _without_attempts(shortfalls: list[Shortfall]) -> list[Shortfall]:
    """TensorFlow asks for a constant at several stages, each time in vain: the last is the one that ended it."""
    kept = [
        shortfall
        for shortfall, after in pairwise(shortfalls)
        if shortfall.request.bytes is None or after.request.bytes != shortfall.request.bytes
    ]
    return [*kept, *shortfalls[-1:]]


def _explain(folder: Path, shortfall: Shortfall, held: Held, target: str, record: Record | None) -> Shortage:
    limit = None if record is None else record.limit_bytes
    heap: Heap = read_memory_dump(folder / held.heap, limit_bytes=limit)
    asked = shortfall.request
    constant = held.constant_of(asked.bytes)
    source = asked.source or held.request_source or (None if constant is None else constant.source)
    request = replace(asked, source=source)
    samples = () if record is None else record.samples
    evidence = Evidence(
        request,
        limit_bytes=heap.limit_bytes,
        in_use_bytes=heap.bytes_in_use,
        free_bytes=heap.free_bytes,
        largest_free_bytes=heap.largest_free_bytes,
        extension_bytes=heap.extension_bytes,
        holders=held.holders,
        samples=samples,
        step=held.step,
        step_peak_bytes=held.step_peak_bytes,
        request_kind="constants" if constant is not None else held.request_kind,
        outside_ops=shortfall.outside,
        compiled=shortfall.compiled,
        batch_size=held.batch_size,
        largest_batch_size=held.largest_batch_size,
        planned_slowdown=held.planned_slowdown,
    )
    return explain_evidence(
        evidence,
        target,
        peak_bytes=heap.peak_bytes,
        tide=_load(folder / "failed.tide", target),
        notes=shortfall.notes,
    )
