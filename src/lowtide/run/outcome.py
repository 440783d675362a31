"""The outcome of a run: the tide of a steady step, and an explanation if memory ran out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.oom.evidence import Evidence, Request
from lowtide.oom.heap import read_memory_dump
from lowtide.oom.log_reader import read_log_evidence
from lowtide.oom.shortage import Shortage, explain_evidence
from lowtide.run.chunks import read_stretches
from lowtide.run.graph_names import GraphNames
from lowtide.run.heap_owners import ProcessEvidence, load_process_evidence
from lowtide.run.record import OWN, RunRecord, load_record, read_failure
from lowtide.run.recorded_tide import choose_step, recorded_tide, whole_script
from lowtide.tide.columns import Building
from lowtide.tide.tide import Tide

if TYPE_CHECKING:
    from lowtide.run.launch import Ending


@dataclass(frozen=True)
class Outcome:
    """The recorded and the predicted tide of a steady step, and the shortages; `problem` says why there is no tide."""

    tide: Tide | None
    predicted: Tide | None
    shortages: tuple[Shortage, ...]
    problem: str | None


def read_outcome(folder: Path, ending: Ending, target: str) -> Outcome:
    """Read the outcome of a run from the files in `folder`."""
    record = load_record(folder)
    tide = _load(folder / "step.tide", target) or _tide_without_names(folder, record, target)
    predicted = _load(folder / "predicted.tide", target)
    shortages = tuple(_explain_failures(folder, ending, target, record))
    problem = None if tide is not None or shortages else _why_no_tide(folder, record)
    return Outcome(tide, predicted, shortages, problem)


def _load(path: Path, target: str) -> Tide | None:
    return replace(Tide.load(path), target=target) if path.exists() else None


def _tide_without_names(folder: Path, record: RunRecord | None, target: str) -> Tide | None:
    """Return the tide of a process that was killed before it inspected its step; some names are missing."""
    windows = () if record is None else record.windows
    stretches = read_stretches(windows, folder)
    chosen = choose_step(stretches) or whole_script(stretches)
    if record is None or chosen is None:
        return None
    owners = [owner for window in windows for rows in window.owners.values() for owner in rows]
    names = GraphNames(layers=frozenset(owner.layer for owner in owners if owner.layer is not None))
    return recorded_tide(
        *chosen,
        names,
        target=target,
        batch_size=None,
        limit_bytes=record.limit_bytes,
        building=Building(0, 0, 0, None),
        notes=(*record.notes, f"{_why_not_inspected(folder)}, so some names are missing"),
    )


def _why_not_inspected(folder: Path) -> str:
    return read_failure(folder) or "the process ended before its step was inspected"


def _why_no_tide(folder: Path, record: RunRecord | None) -> str:
    failure = read_failure(folder)
    if failure is not None:
        return failure
    if record is None:
        return "nothing was recorded: the script did not import TensorFlow"
    if not record.windows:
        return "nothing was recorded: the process ended before its recording was saved"
    if record.steps == 0:
        return "nothing was recorded: the script imported TensorFlow, but TensorFlow allocated no memory"
    why = "; ".join(record.notes) or "no step completed"
    return f"nothing was recorded: {why}"


def _explain_failures(folder: Path, ending: Ending, target: str, record: RunRecord | None) -> Iterator[Shortage]:
    """Yield each allocation failure in the log; the last one with everything that the process itself knew."""
    with ending.log.open("rb") as log:
        # Inspecting the step after the script has ended may itself run out of memory; that is not the script's failure.
        own = [each for each in read_log_evidence(log) if OWN not in (each.request.node or each.request.op or "")]
    failures = _without_attempts(own)
    process = load_process_evidence(folder)
    # If the log has no messages, the allocator's dump is the only evidence.
    if not failures and (process is None or ending.as_exit_code == 0):
        return
    last = failures[-1] if failures else Evidence(Request())
    if process is not None:
        last = _add_recording(last, folder, process, target, record)
    for evidence in (*failures[:-1], last):
        yield explain_evidence(evidence, target)


def _without_attempts(failures: list[Evidence]) -> list[Evidence]:
    """Drop repeated attempts: TensorFlow requests a constant at several stages, and only the last failure is final."""
    kept = [
        evidence
        for evidence, after in pairwise(failures)
        if evidence.request.bytes is None or after.request.bytes != evidence.request.bytes
    ]
    return [*kept, *failures[-1:]]


def _add_recording(
    evidence: Evidence, folder: Path, process: ProcessEvidence, target: str, record: RunRecord | None
) -> Evidence:
    """Return what the log says with what the script's process saved about the same failure."""
    heap = read_memory_dump(folder / process.heap, limit_bytes=None if record is None else record.limit_bytes)
    request = evidence.request.with_missing(process.request)
    constant = process.find_constant(request.bytes)
    source = request.source or (None if constant is None else constant.source)
    return replace(
        evidence.with_heap(heap),
        request=replace(request, source=source),
        holders=process.holders,
        samples=() if record is None else record.samples,
        step=process.step,
        step_peak_bytes=process.step_peak_bytes,
        request_kind="constants" if constant is not None else process.request_kind,
        batch_size=process.batch_size,
        largest_batch_size=process.largest_batch_size,
        planned_slowdown=process.planned_slowdown,
        is_eager=process.is_eager,
        is_recorded=True,
        tide=_load(folder / "failed.tide", target),
        # The log of a recorded run is not the user's file.
        line=None,
    )
