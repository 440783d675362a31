"""Runs a step repeatedly in this process, records the allocator's events, and returns the tide of a steady step."""

from __future__ import annotations

import functools
import gc
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.oom.evidence import Request
from lowtide.oom.log_reader import read_log_evidence
from lowtide.progress import Progress, ProgressCallback
from lowtide.run.chunks import read_stretches
from lowtide.run.graph_names import UNIDENTIFIED
from lowtide.run.record import Call, read_failure
from lowtide.run.recorded_tide import choose_step
from lowtide.tf.hooks import add_listener, remove_listener
from lowtide.tf.record.call_listener import FunctionListener
from lowtide.tf.record.device import bytes_in_use, device_name, limit_bytes
from lowtide.tf.record.finish_recording import inspect_step, tide_of_step
from lowtide.tf.record.measured_step import MeasuredStep, function_step, model_step
from lowtide.tf.record.recorder import Recorder
from lowtide.tf.record.script import recording_paused
from lowtide.tf.record.variable_snapshot import VariableSnapshot
from lowtide.tf.trace.keras_models import candidate_specs
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes, format_count

# Slow steps are run less often before the recorded ones: until this time is over, but at least this number of times.
MIN_WARM_UP_STEPS, MAX_WARM_UP_SECONDS = 3, 30.0
# Memory that does not belong to the step is noted if it is at least this share of the peak.
NOTABLE_SHARE = 0.05
# An unusual size: if the bytes in use grow by it, the allocator counts every allocation.
_PROBE_ELEMENTS, _PROBES = 263, 3


@functools.cache
def keeps_record() -> bool:
    """Whether the allocator of this process's device records all allocations, small ones included.

    A GPU's allocator does, and the CPU's if the environment selected it. oneDNN's counts large blocks only.
    """
    if device_name() != "CPU:0":
        return True
    counted, held = 0, []
    with tf.device("CPU:0"):
        for number in range(_PROBES):
            before = bytes_in_use()
            held.append(tf.fill([_PROBE_ELEMENTS], float(number)))
            counted += 4 * _PROBE_ELEMENTS <= bytes_in_use() - before < 1 << 20
    # Another thread may free memory in between.
    return 2 * counted > _PROBES


class MeasuredRun(Recorder):
    """Records a step that is run only to be measured: its start is known, and all its calls belong to it."""

    def __init__(self, folder: Path, steps: int, snapshot: VariableSnapshot) -> None:
        super().__init__(folder, steps, limit_bytes())
        self._snapshot = snapshot

    def run(self, step: MeasuredStep, progress: ProgressCallback) -> None:
        """Run the step until the allocator is in a steady state, and then record it."""
        self.open_window()
        listener = FunctionListener(self)
        add_listener(listener)
        try:
            progress(Progress("running the first step"))
            self._run_once(step)
            progress(Progress("running until the allocator is in a steady state"))
            started = time.monotonic()
            while self.step < self.first_steady_step - 1:
                if self.step >= MIN_WARM_UP_STEPS and time.monotonic() - started > MAX_WARM_UP_SECONDS:
                    self.first_steady_step = self.step + 1
                else:
                    self._run_once(step)
            progress(Progress(f"recording {format_count(self.steady_steps, 'step')}"))
            for _ in range(self.steady_steps):
                self._run_once(step)
            self.record_final_addresses()
        finally:
            remove_listener(listener)
            self.end()
        failure = read_failure(self.folder)
        if failure is not None:
            raise LowtideError(failure)

    def open_window(self) -> bool:
        """Start recording the allocator's events; only one profiler can run at a time."""
        if not super().open_window():
            cure = "stop it first, with tf.profiler.experimental.stop()"
            raise LowtideError("a profiler is running in this process, and there can be only one", cure=cure)
        return True

    def used_variables(self) -> list[Any]:
        """The variables that the recorded functions read."""
        return [variable for variables in self._variables.values() for variable in variables]

    def _run_once(self, step: MeasuredStep) -> None:
        self._begin_step(self.step + 1)
        number = self._calls = self._calls + 1
        if self._open is not None:
            call = Call(number, self.step, step.label)
            self._open.calls.append(call)
            self._open.owners[call.begin_mark] = self.lookup.owners((), step.inputs)
            self._mark(call.begin_mark)
        step.run()
        self.end_call(number)

    def _is_counted(self, function: str, concrete: Any, trains: Callable[[], bool]) -> bool:
        """A call inside of the step does not begin another step."""
        return False

    def _keep_function(self, function: str, concrete: Any) -> None:
        super()._keep_function(function, concrete)
        # A function that is called for the first time may have just created its variables.
        self._snapshot.add(concrete.graph.variables)


def measure_here(
    target: Any,
    arguments: tuple[Any, ...],
    *,
    batch_size: int | None,
    steps: int,
    progress: ProgressCallback,
    label: str | None,
) -> Tide:
    """Measure a step in this process; the arguments are those of `lt.measure`."""
    # Unreachable objects would count until the garbage collector happens to run.
    gc.collect()
    if not isinstance(target, keras.Model):
        return _measure(function_step(target, arguments, batch_size, label, progress), steps, progress)
    first_error: Exception | None = None
    for candidate in candidate_specs(target, arguments):
        try:
            with model_step(target, candidate, batch_size, label) as step:
                return _measure(step, steps, progress)
        except (LowtideError, tf.errors.ResourceExhaustedError):
            raise
        except Exception as error:
            # A model does not say what its targets look like, or whether it takes any.
            first_error = first_error or error
    assert first_error is not None
    raise first_error


def _measure(step: MeasuredStep, steps: int, progress: ProgressCallback) -> Tide:
    """Run and record a step, and restore every variable afterwards."""
    snapshot = VariableSnapshot()
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        run = MeasuredRun(Path(folder), steps, snapshot)
        try:
            with recording_paused(), snapshot.adding_new_variables():
                run.run(step, progress)
            return _steady_tide(run, step, progress)
        except tf.errors.ResourceExhaustedError as error:
            raise out_of_memory(step.label, str(error).encode().splitlines()) from error
        finally:
            snapshot.restore()


def _steady_tide(run: MeasuredRun, step: MeasuredStep, progress: ProgressCallback) -> Tide:
    """The tide of a steady step, with names from its functions and from the Keras objects of this process."""
    progress(Progress("reading the record"))
    stretches = read_stretches(run.windows, run.folder)
    steady = choose_step(stretches)
    if steady is None:
        raise LowtideError(
            "the allocator recorded nothing while the step ran",
            given=device_name(),
            cure="on a GPU, leave TF_GPU_ALLOCATOR unset",
        )
    tide = tide_of_step(run, steady, inspect_step(run, stretches, steady, progress))
    other_bytes = _bytes_of_others(tide, step, run)
    notes = tide.notes
    if other_bytes > NOTABLE_SHARE * tide.peak_bytes:
        note = f"{format_bytes(other_bytes)} of what the allocator holds does not seem to belong to the step"
        notes = (*notes, f"{note}: other models, and tensors that the program keeps")
    return replace(tide, target=step.label, batch_size=step.batch_size or tide.batch_size, notes=notes)


def _bytes_of_others(tide: Tide, step: MeasuredStep, run: MeasuredRun) -> int:
    """The bytes that are allocated throughout the step and are not known to belong to it."""
    buffers, kinds = tide.buffers, run.lookup.kinds
    used = run.used_variables()
    # A step without traced functions may read any variable.
    all_used = not used
    used += [variable.value for owner in step.owners for variable in _variables(owner)]
    names = {kinds[id(variable.handle)][1] for variable in used if id(variable.handle) in kinds}
    return sum(
        int(buffers.allocated[row])
        for row, (name, op) in enumerate(zip(buffers.name, buffers.op, strict=True))
        if buffers.born[row] == 0
        and buffers.died[row] == len(tide.curve)
        and (name == UNIDENTIFIED or (op == "Variable" and not all_used and name not in names))
    )


def _variables(owner: Any) -> list[Any]:
    return [*owner.variables, *getattr(owner, "metrics_variables", ())]


def out_of_memory(label: str, lines: list[bytes]) -> LowtideError:
    """The error of a measured step that ran out of memory; `lines` are TensorFlow's messages."""
    found = [evidence.request for evidence in read_log_evidence(lines)]
    request = found[-1] if found else Request()
    by = next((f" by {each}" for each in (request.node, request.op) if each), "")
    asked = "" if request.bytes is None else f": {format_bytes(request.bytes)} were requested{by} and not available"
    return LowtideError(
        f"{label} ran out of memory while it was measured{asked}",
        cure="try a smaller batch, or lt.predict, which allocates nothing",
    )
