"""The end of a recorded run, still inside the script's process: what was heard becomes a tide.

Only here are the traced functions and the Keras objects at hand that give names to what the allocator saw.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError
from lowtide.oom.evidence import Request
from lowtide.oom.heap import Heap, read_memory_dump
from lowtide.oom.log_reader import read_log_evidence
from lowtide.progress import Progress, ProgressCallback
from lowtide.run.chunks import Stretch, busiest_allocator, follow
from lowtide.run.heap_owners import Constant, Held, alike_by_size, holders_of, moment_of, save_held
from lowtide.run.record import TAPE, Place, report_failure
from lowtide.run.recorded_tide import RecordedStep, choose_step, recorded_tide, step_until
from lowtide.sources.profiles.compiled_modules import read_signatures
from lowtide.sources.profiles.xplane import AllocationRecord, read_profile
from lowtide.tf.record.addresses import kept_places
from lowtide.tf.record.called_function import Heard, batch_size_of
from lowtide.tf.record.inspect_step import Look, look_at, look_at_nothing
from lowtide.tf.trace.source_lines import inner_functions, line_of_frames, source_finder
from lowtide.tf.trace.step import StepMetadata
from lowtide.tf.trace.trace import Trace, count_nodes
from lowtide.tide.tide import Tide


def conclude(recorder: Any, error: BaseException | None = None, *, is_dying: bool = False) -> None:
    """Write what is known of the run: the tide of a steady step, what was predicted, and who held what at the end."""
    folder: Path = recorder.folder
    stretches = stretches_of(recorder)
    if not stretches:
        return
    heap_file = last_heap(folder)
    steady = choose_step(stretches)
    look = look_at_step(recorder, stretches, steady)
    if steady is not None:
        tide_of_step(recorder, steady, look).save(folder / "step.tide")
    # Where a tape was around the function, it is only a part of the step.
    is_whole = steady is None or TAPE not in steady[1].functions
    predicted = _predict(look, folder) if is_whole else None
    if predicted is not None:
        predicted.save(folder / "predicted.tide")
    if heap_file is not None:
        heap = read_memory_dump(heap_file, limit_bytes=recorder.limit_bytes)
        # A process that dies runs no more ops; where its variables were at the last step is near enough.
        variables = recorder.last_places() if is_dying else recorder.lookup.everything()
        short = _Shortage(heap_file.name, heap, variables, error, predicted)
        # What is known is written down before each thing that may be the end: a search that takes its time, and the
        # question where the tensors lie that Python keeps, for one that got no memory may be among them.
        _explain_shortage(recorder, short, stretches, look)
        short = replace(short, **_what_fits(look, predicted, recorder.limit_bytes or heap.limit_bytes))
        _explain_shortage(recorder, short, stretches, look)
        _explain_shortage(recorder, replace(short, places=(*kept_places(), *variables)), stretches, look)


def last_heap(folder: Path) -> Path | None:
    """The allocator's last dump. It writes one at each attempt to get memory, and some attempts succeed later."""
    dumps = sorted(folder.glob("heap_*"), key=lambda path: int(path.suffix.removeprefix(".") or 0))
    return dumps[-1] if dumps else None


def stretches_of(recorder: Any) -> list[Stretch]:
    """What a recorder heard, window by window."""
    windows = recorder.record().windows
    profiles = [read_profile(recorder.folder / window.profile) for window in windows]
    allocator = busiest_allocator(profiles)
    return [] if allocator is None else follow(windows, profiles, allocator)


Steady = tuple[Stretch, RecordedStep, list[RecordedStep]]


def tide_of_step(recorder: Any, steady: Steady, look: Look) -> Tide:
    """The tide of one recorded step."""
    stretch, step, steps = steady
    return recorded_tide(
        stretch,
        step,
        steps,
        look.names,
        target="step",
        batch_size=look.batch_size,
        limit_bytes=recorder.limit_bytes,
        building=look.building,
        notes=tuple(recorder.notes),
    )


def look_at_step(
    recorder: Any, stretches: list[Stretch], steady: Steady | None, progress: ProgressCallback | None = None
) -> Look:
    """Look at the largest function of the step; where that fails, names have to speak for themselves."""
    lookup = recorder.lookup
    belongings = StepMetadata(lookup.layers, lookup.kinds)
    functions = steady[1].functions if steady is not None else tuple(recorder.functions)
    present = [name for name in functions if name in recorder.functions]
    if not present:
        return look_at_nothing(belongings)
    name = max(present, key=lambda each: count_nodes(recorder.functions[each]))
    concrete = recorder.functions[name]
    stretch, inside = (steady[0], slice(steady[1].first, steady[1].end)) if steady else (stretches[-1], slice(None))
    events = stretch.events
    pairs = zip(events.operation[inside], events.shape[inside], strict=True)
    heard = Heard(
        tensors=tuple((operation, shape) for operation, shape in pairs if operation and shape),
        sizes=_sizes(events, inside),
        around_sizes=_sizes(events, slice(None)),
        modules=read_signatures(recorder.folder / stretch.window.profile),
    )
    if not recorder.has_room(Trace(concrete, 0.0, None).graph_bytes):
        recorder.notes.append("there was no memory left for a look at the step's graph")
        return look_at_nothing(belongings, batch_size_of(concrete, heard))
    try:
        return look_at(concrete, recorder.arguments.get(name, ()), heard, belongings, progress or _tell)
    except LowtideError as error:
        recorder.notes.append(f"the step's graph could not be looked at: {error}")
        return look_at_nothing(belongings, batch_size_of(concrete, heard))


def _sizes(events: AllocationRecord, inside: slice) -> tuple[int, ...]:
    return tuple(events.requested_bytes[inside][events.is_allocation[inside]].tolist())


def _tell(progress: Progress) -> None:
    # The script has ended; a person who waits wants to know for what.
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"lowtide: {progress}", file=sys.stderr, flush=True)


def _predict(look: Look, folder: Path) -> Tide | None:
    try:
        return look.predict("step")
    except LowtideError:
        return None
    except Exception:
        # What was recorded stands without it.
        report_failure(folder)
        return None


@dataclass(frozen=True)
class _Shortage:
    """What is known of the moment beside the record."""

    file: str
    heap: Heap
    places: tuple[Place, ...]
    error: BaseException | None
    predicted: Tide | None
    largest_batch_size: int | None = None
    planned_slowdown: float | None = None


def _explain_shortage(recorder: Any, short: _Shortage, stretches: list[Stretch], look: Look) -> None:
    stretch = stretches[-1]
    # If the window was open when it happened, every block is known by its own allocation.
    moment = moment_of(short.heap, stretch) if recorder.was_recording else None
    alive = [chunk for chunk in stretch.chunks if chunk.is_alive_at(len(stretch.events) if moment is None else moment)]
    holders = holders_of(short.heap, alive, short.places, alike_by_size(stretches), look.names)
    request = _request(short.error)
    fact = look.names.nodes.get(request.node or "")
    save_held(
        Held(
            heap=short.file,
            step=recorder.step or None,
            batch_size=look.batch_size,
            step_peak_bytes=None if short.predicted is None else short.predicted.peak_bytes,
            largest_batch_size=short.largest_batch_size,
            planned_slowdown=short.planned_slowdown,
            request_kind=None if fact is None else fact.kind,
            request_source=_source(look, request.node) or line_of_frames(_stack(short.error)),
            holders=holders,
            constants=tuple(_large_constants(recorder.functions.values())),
        ),
        recorder.folder,
    )
    step = None if moment is None else step_until(stretch, moment)
    if step is not None:
        tide_of_step(recorder, (stretch, step, [step]), look).save(recorder.folder / "failed.tide")


# An array in a graph that is smaller than this ran nobody out of memory.
_LARGE_CONSTANT = 1 << 20


def _large_constants(functions: Iterable[Any]) -> Iterator[Constant]:
    """Arrays that were written into the graphs of a program; their values are not looked at."""
    for concrete in functions:
        source = source_finder(concrete)
        for graph in (concrete.graph, *inner_functions(concrete.graph).values()):
            for operation in graph.get_operations():
                shape = operation.outputs[0].shape if operation.type == "Const" else None
                size = (shape.num_elements() or 0) * operation.outputs[0].dtype.size if shape is not None else 0
                if size >= _LARGE_CONSTANT:
                    yield Constant(operation.name, size, source(operation.name))


def _request(error: BaseException | None) -> Request:
    found = list(read_log_evidence(line.encode() for line in str(error or "").splitlines()))
    return found[-1].request if found else Request()


def _stack(error: BaseException | None) -> list[tuple[str, int]]:
    """Where the script was: where it raised, or where its main thread still is."""
    if error is not None:
        return [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return [(each.f_code.co_filename, line) for each, line in traceback.walk_stack(frame)][::-1] if frame else []


def _source(look: Look, node: str | None) -> str | None:
    return None if node is None or look.names.source_of is None else look.names.source_of(node)


def _what_fits(look: Look, predicted: Tide | None, budget: int | None) -> dict[str, Any]:
    """What would have fitted: a smaller batch, or the same one as planned. A step that fits anyway needs no plan."""
    if budget is None:
        return {}
    found: dict[str, Any] = {}
    with contextlib.suppress(LowtideError):
        found["largest_batch_size"] = look.largest_batch(budget)
    if predicted is not None and predicted.safe_bytes > budget:
        with contextlib.suppress(LowtideError):
            found["planned_slowdown"] = look.planned_slowdown(predicted, budget)
    return found
