"""Writes the results of a recording, inside the recorded process: the tide of a step, the prediction, heap owners.

The traced functions and Keras objects that give names to buffers exist in this process only.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError
from lowtide.oom.evidence import Request
from lowtide.oom.heap import Heap, read_memory_dump
from lowtide.oom.log_reader import read_log_evidence
from lowtide.progress import Progress, ProgressCallback
from lowtide.run.chunks import RecordedChunk, Stretch, read_stretches
from lowtide.run.heap_owners import (
    ProcessEvidence,
    chunks_by_size,
    find_dump_event,
    find_heap_owners,
    save_process_evidence,
)
from lowtide.run.record import report_failure
from lowtide.run.recorded_tide import (
    RecordedStep,
    choose_step,
    find_eager_batch,
    is_of_eager_step,
    recorded_tide,
    step_until,
    whole_script,
)
from lowtide.sources.profiles.compiled_modules import read_signatures
from lowtide.sources.profiles.xplane import AllocationRecord
from lowtide.tf.record.addresses import kept_owners
from lowtide.tf.record.called_function import StepAllocations, batch_size_of
from lowtide.tf.record.device import peak_bytes_in_use
from lowtide.tf.record.inspect_step import StepInspection, inspect_function, uninspected
from lowtide.tf.record.recorder import Recorder
from lowtide.tf.references.arrays import array_being_copied
from lowtide.tf.trace.source_lines import find_user_frame, inner_functions, make_source_finder
from lowtide.tf.trace.step import StepMetadata
from lowtide.tf.trace.trace import Trace, count_nodes
from lowtide.tide.columns import ProcessMemory
from lowtide.tide.kinds import OUTSIDE
from lowtide.tide.owner import Owner
from lowtide.tide.tide import Tide

SteadyStep = tuple[Stretch, RecordedStep, list[RecordedStep]]
# Smaller constants of a graph do not explain why memory ran out.
_LARGE_CONSTANT_BYTES = 1 << 20

# What Keras adds to an error in the call of a layer, and where its layers are.
_KERAS_CALL, _KERAS_LAYERS = "Exception encountered when calling", "/keras/src/layers/"


def finish_recording(
    recorder: Recorder,
    error: BaseException | None = None,
    *,
    is_crashing: bool = False,
    resident_bytes: int | None = None,
) -> None:
    """Write the tide of a steady step, what was predicted for it, and the owners of the heap if memory ran out.

    Of a script without steps it is the tide of the whole script. `resident_bytes` is the process's highest memory.
    """
    folder = recorder.folder
    stretches = read_stretches(recorder.windows, folder)
    heap_file = _last_heap_dump(folder)
    if not stretches and heap_file is None:
        return
    steady = choose_step(stretches)
    inspection = inspect_step(recorder, stretches, steady)
    shown = steady or whole_script(stretches)
    if shown is not None:
        arrays = () if recorder.held is None else recorder.held.arrays
        process = ProcessMemory(resident_bytes, _allocator_peak(stretches), arrays)
        tide_of_step(recorder, shown, inspection, process).save(folder / "step.tide")
    # Where a tape was opened around the function, the function is only a part of the step.
    is_whole = steady is None or not steady[1].is_eager
    predicted = _predict(inspection, folder) if is_whole else None
    if predicted is not None:
        predicted.save(folder / "predicted.tide")
    if heap_file is not None:
        _write_failure(recorder, heap_file, stretches, inspection, predicted, error, is_crashing)


def _last_heap_dump(folder: Path) -> Path | None:
    """The allocator's last dump: it writes one at each failed attempt, and later attempts may succeed."""
    dumps = sorted(folder.glob("heap_*"), key=lambda path: int(path.suffix.removeprefix(".") or 0))
    return dumps[-1] if dumps else None


def _allocator_peak(stretches: list[Stretch]) -> int:
    """The allocator's peak of the whole process; the script may have reset the allocator's own figure."""
    return max(peak_bytes_in_use(), *(int(each.events.bytes_in_use.max(initial=0)) for each in stretches))


def tide_of_step(
    recorder: Recorder, steady: SteadyStep, inspection: StepInspection, process: ProcessMemory | None = None
) -> Tide:
    """The tide of one recorded step."""
    stretch, step, steps = steady
    return recorded_tide(
        stretch,
        step,
        steps,
        inspection.names,
        target="step",
        batch_size=inspection.batch_size,
        limit_bytes=recorder.limit_bytes,
        building=inspection.building,
        notes=tuple(recorder.notes),
        process=process,
    )


def inspect_step(
    recorder: Recorder,
    stretches: list[Stretch],
    steady: SteadyStep | None,
    progress: ProgressCallback | None = None,
) -> StepInspection:
    """Inspect the largest function of a step; if that fails, only the names of layers are known."""
    lookup = recorder.lookup
    metadata = StepMetadata(lookup.layers, lookup.kinds)
    functions = steady[1].functions if steady is not None else tuple(recorder.functions)
    present = [name for name in functions if name in recorder.functions]
    if not present or not stretches:
        return uninspected(metadata, _eager_batch(recorder, stretches, steady))
    name = max(present, key=lambda each: count_nodes(recorder.functions[each]))
    concrete, shapes = recorder.find_call(name, None if steady is None else steady[1].step)
    stretch, inside = (steady[0], slice(steady[1].first, steady[1].end)) if steady else (stretches[-1], slice(None))
    events = stretch.events
    pairs = zip(events.operation[inside], events.shape[inside], strict=True)
    allocations = StepAllocations(
        tensors=tuple((operation, shape) for operation, shape in pairs if operation and shape),
        sizes=_requested_sizes(events, inside),
        surrounding_sizes=_requested_sizes(events, slice(None)),
        modules=read_signatures(recorder.folder / stretch.window.profile),
    )
    if not recorder.has_room(Trace(concrete, 0.0, None).graph_bytes):
        recorder.notes.append("there was not enough memory left to inspect the step's graph")
        return uninspected(metadata, batch_size_of(concrete, allocations))
    try:
        return inspect_function(concrete, shapes, allocations, metadata, progress or _print_progress)
    except LowtideError as error:
        recorder.notes.append(f"the step's graph could not be inspected: {error}")
        return uninspected(metadata, batch_size_of(concrete, allocations))


def _eager_batch(recorder: Recorder, stretches: list[Stretch], steady: SteadyStep | None) -> int | None:
    """The batch size of a step that runs eagerly: of the recorded step, or of the one that the script ended in."""
    if steady is None:
        step = step_until(stretches[-1], len(stretches[-1].events)) if stretches else None
        steady = None if step is None else (stretches[-1], step, [step])
    if steady is None or not steady[1].is_eager:
        return None
    return recorder.eager_batch(steady[1].step) or find_eager_batch(*steady[:2])


def _requested_sizes(events: AllocationRecord, inside: slice) -> tuple[int, ...]:
    return tuple(events.requested_bytes[inside][events.is_allocation[inside]].tolist())


def _print_progress(progress: Progress) -> None:
    # The script has ended, but its process has not: say why in a terminal.
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"lowtide: {progress}", file=sys.stderr, flush=True)


def _predict(inspection: StepInspection, folder: Path) -> Tide | None:
    try:
        return inspection.predict("step")
    except LowtideError:
        return None
    except Exception:
        # The recorded tide is complete without a prediction.
        report_failure(folder)
        return None


def _write_failure(
    recorder: Recorder,
    heap_file: Path,
    stretches: list[Stretch],
    inspection: StepInspection,
    predicted: Tide | None,
    error: BaseException | None,
    is_crashing: bool,
) -> None:
    """Write what this process knows about the failed allocation, and the tide of the step until then.

    Results are written before each stage that may not return: the search for what fits may take long, and asking for
    the address of a tensor whose allocation failed may end the process.
    """
    folder, names = recorder.folder, inspection.names
    # The very first request may fail, and then nothing was recorded.
    stretch = stretches[-1] if stretches else None
    heap = read_memory_dump(heap_file, limit_bytes=recorder.limit_bytes)
    # A process that crashes must not run more ops, so it uses the addresses at the last step.
    variables = recorder.last_owners() if is_crashing else recorder.lookup.all_owners()
    # If a window was open at that moment, every chunk is known by its own allocation.
    moment = find_dump_event(heap, stretch) if recorder.was_recording and stretch is not None else None
    step = None if stretch is None or moment is None else step_until(stretch, moment)
    alive = [_without_python_name(chunk, step) for chunk in ([] if stretch is None else stretch.alive_at(moment))]
    # A tensor of the failed step that Python holds too is better known by the op that made it.
    in_step = set() if step is None else {chunk.address for chunk in alive if is_of_eager_step(chunk, step)}
    variables = tuple(owner for owner in variables if owner.kind != OUTSIDE or owner.address not in in_step)
    find_owners = functools.partial(find_heap_owners, heap, alive, alike=chunks_by_size(stretches), names=names)
    # A process that died in an eager op was not copying an array.
    array = _array_too_large(heap) if error is None and recorder.failed_op is None else None
    request = _failed_request(error) if array is None else array
    node = names.nodes.get(request.node or "") or recorder.failed_op
    source = names.source_of(request.node) if request.node is not None and names.source_of is not None else None
    evidence = ProcessEvidence(
        heap=heap_file.name,
        step=recorder.step or None,
        batch_size=inspection.batch_size,
        step_peak_bytes=None if predicted is None else predicted.peak_bytes,
        request_kind="constants" if array is not None else None if node is None else node.kind,
        request=replace(request, source=source or find_user_frame(_script_stack(error))),
        holders=find_owners(variables),
        constants=tuple(_large_constants(recorder.functions.values())),
        is_eager=recorder.failed_op is not None or _is_of_eager_model(recorder, request, error),
    )
    save_process_evidence(evidence, folder)
    if stretch is not None and step is not None:
        tide_of_step(recorder, (stretch, step, [step]), inspection).save(folder / "failed.tide")
    if not evidence.is_eager:
        # The functions of an eager step are only parts of it.
        evidence = replace(evidence, **_what_fits(inspection, predicted, recorder.limit_bytes or heap.limit_bytes))
    save_process_evidence(evidence, folder)
    kept = (owner for owner in kept_owners() if owner.address not in in_step)
    save_process_evidence(replace(evidence, holders=find_owners((*kept, *variables))), folder)


def _is_of_eager_model(recorder: Recorder, request: Request, error: BaseException | None) -> bool:
    """Whether an eager op made the request, in a step or in the call of a Keras layer."""
    if request.op is None or request.node is not None:
        return False
    # Keras removes its own frames from the traceback of an error, and names the layer in the message.
    in_layer = _KERAS_CALL in str(error) or any(_KERAS_LAYERS in file for file, _ in _script_stack(error))
    return recorder.has_tapes or in_layer


def _without_python_name(chunk: RecordedChunk, step: RecordedStep | None) -> RecordedChunk:
    """Return a chunk of the failed step without the name of the Python object that holds it: the op says more."""
    is_held = chunk.owner is not None and chunk.owner.kind == OUTSIDE
    return replace(chunk, owner=None) if is_held and step is not None and is_of_eager_step(chunk, step) else chunk


def _large_constants(functions: Iterable[Any]) -> Iterator[Owner]:
    """The large constants in the graphs of functions; their values are not read."""
    for concrete in functions:
        source = make_source_finder(concrete)
        for graph in (concrete.graph, *inner_functions(concrete.graph).values()):
            for operation in graph.get_operations():
                shape = operation.outputs[0].shape if operation.type == "Const" else None
                size = (shape.num_elements() or 0) * operation.outputs[0].dtype.size if shape is not None else 0
                if size >= _LARGE_CONSTANT_BYTES:
                    yield Owner(operation.name, bytes=size, source=source(operation.name))


def _failed_request(error: BaseException | None) -> Request:
    found = list(read_log_evidence(line.encode() for line in str(error or "").splitlines()))
    return found[-1].request if found else Request()


def _array_too_large(heap: Heap) -> Request | None:
    """The request for a copy of the array that a crashed process was copying; None if it was not, or it would fit."""
    array = array_being_copied()
    if array is None or array.nbytes <= (heap.largest_free_bytes or 0):
        return None
    return Request(bytes=array.nbytes, shape=array.shape, dtype=array.dtype.name)


def _script_stack(error: BaseException | None) -> list[tuple[str, int]]:
    """The files and lines where the script raised, or where its main thread is now; outermost first."""
    if error is not None:
        return [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return [(each.f_code.co_filename, line) for each, line in traceback.walk_stack(frame)][::-1] if frame else []


def _what_fits(inspection: StepInspection, predicted: Tide | None, budget: int | None) -> dict[str, Any]:
    """The largest batch that would have fit, and the cost of a plan for a step that does not fit."""
    if budget is None:
        return {}
    found: dict[str, Any] = {}
    with contextlib.suppress(LowtideError):
        found["largest_batch_size"] = inspection.largest_batch(budget)
    if predicted is not None and predicted.safe_bytes > budget:
        with contextlib.suppress(LowtideError):
            found["planned_slowdown"] = inspection.planned_slowdown(predicted, budget)
    return found
