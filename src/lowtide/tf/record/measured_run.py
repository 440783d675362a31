"""Running a step some times on a device whose allocator keeps a record, and reading the record."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.progress import Progress, ProgressCallback
from lowtide.run.graph_names import UNIDENTIFIED
from lowtide.run.record import Call
from lowtide.run.recorded_tide import choose_step
from lowtide.tf.record import recorder
from lowtide.tf.record.call_hooks import watch_functions
from lowtide.tf.record.finish_recording import look_at_step, stretches_of, tide_of_step
from lowtide.tf.record.recorder import Recorder
from lowtide.tf.record.variable_snapshot import Snapshot
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes

# Where steps are slow, fewer of them have to do until the allocator has settled.
FEWEST_BEFORE, LONGEST_SECONDS = 3, 30.0
# What is in the allocator beside the step is worth a word from this share of the peak on.
NOTABLE_SHARE = 0.05
# As large as no other tensor: what the allocator counts for it tells whether it counts everything.
_PROBE_ELEMENTS, _PROBES = 263, 3


@dataclass(frozen=True)
class Step:
    """Something to run, and the tensors that it is given each time."""

    run: Callable[[], Any]
    label: str
    inputs: Sequence[Any] = ()
    batch_size: int | None = None
    owners: Sequence[Any] = ()
    """The Keras models, layers and optimizers that are known to belong to it."""


@functools.cache
def keeps_record() -> bool:
    """Whether the allocator of this process's device records what it gives out, however little it is.

    A GPU's does, and the CPU's if the environment asked for it in time. The one that oneDNN brings along counts large
    blocks alone.
    """
    if recorder.device_name() != "CPU:0":
        return True
    counted, held = 0, []
    with tf.device("CPU:0"):
        for number in range(_PROBES):
            before = recorder.bytes_in_use()
            held.append(tf.fill([_PROBE_ELEMENTS], float(number)))
            counted += 4 * _PROBE_ELEMENTS <= recorder.bytes_in_use() - before < 1 << 20
    # Another thread may have freed something in between.
    return 2 * counted > _PROBES


class Rehearsal(Recorder):
    """Records a step that is run for this purpose alone: where each begins is known, and all it calls is part of it."""

    def __init__(self, folder: Path, steps: int, snapshot: Snapshot) -> None:
        super().__init__(folder, steps, recorder.limit_bytes())
        self._snapshot = snapshot

    def run(self, step: Step, progress: ProgressCallback) -> None:
        """Run until the allocator has settled, and then as often as is to be recorded."""
        self.open_window()
        unwatch = watch_functions(self)
        try:
            progress(Progress("running the first step"))
            self._run_once(step)
            progress(Progress("running until the allocator has settled"))
            started = time.monotonic()
            while self.step < self.settled_from - 1:
                if self.step >= FEWEST_BEFORE and time.monotonic() - started > LONGEST_SECONDS:
                    self.settled_from = self.step + 1
                else:
                    self._run_once(step)
            progress(Progress(f"recording {self.settled_steps} steps"))
            for _ in range(self.settled_steps):
                self._run_once(step)
            self.look_once_more()
        finally:
            unwatch()
            self.end()
        failure = self.folder / "recorder-error.txt"
        if failure.exists():
            last = failure.read_text(encoding="utf-8").strip().splitlines()[-1]
            raise LowtideError(f"the recorder failed, please report this: {last}")

    def open_window(self) -> bool:
        """Listen to the allocator, which one profiler at a time can do."""
        if not super().open_window():
            cure = "stop it first, with tf.profiler.experimental.stop()"
            raise LowtideError("a profiler is running in this process, and there can be only one", cure=cure)
        return True

    def used(self) -> list[Any]:
        """The variables that the recorded functions read."""
        return [variable for variables in self._variables.values() for variable in variables]

    def _run_once(self, step: Step) -> None:
        self._begin_step(self.step + 1)
        number = self._calls = self._calls + 1
        if self._open is not None:
            call = Call(number, self.step, step.label)
            self._open.calls.append(call)
            self._open.places[call.begin_mark] = self.lookup.places((), step.inputs)
            self._mark(call.begin_mark)
        step.run()
        self.end_call(number)

    def _is_counted(self, function: str, concrete: Any, trains: Callable[[], bool]) -> bool:
        """A call inside of the step begins no other."""
        return False

    def _keep(self, function: str, concrete: Any) -> None:
        super()._keep(function, concrete)
        # A function that is called for the first time has just created its variables.
        self._snapshot.keep(concrete.graph.variables)


def rehearse(step: Step, folder: Path, steps: int, progress: ProgressCallback, snapshot: Snapshot) -> Tide:
    """The tide of a steady step, with the names that its functions and the Keras objects of this process give."""
    rehearsal = Rehearsal(folder, steps, snapshot)
    with recorder.aside(), snapshot.keeping_new_ones():
        rehearsal.run(step, progress)
    progress(Progress("reading the record"))
    stretches = stretches_of(rehearsal)
    steady = choose_step(stretches)
    if steady is None:
        raise LowtideError(
            "the allocator recorded nothing while the step ran",
            given=recorder.device_name(),
            cure="on a GPU, leave TF_GPU_ALLOCATOR unset",
        )
    look = look_at_step(rehearsal, stretches, steady, progress)
    tide = tide_of_step(rehearsal, steady, look)
    beside = _bytes_beside(tide, step, rehearsal)
    notes = tide.notes if beside <= NOTABLE_SHARE * tide.peak_bytes else (*tide.notes, _beside(beside))
    return replace(tide, target=step.label, batch_size=step.batch_size or tide.batch_size, notes=notes)


def _bytes_beside(tide: Tide, step: Step, rehearsal: Rehearsal) -> int:
    """What lies in the allocator all the time and is not the step's, as far as anybody knows."""
    buffers, kinds = tide.buffers, rehearsal.lookup.kinds
    used = rehearsal.used()
    # A step without a function of its own reads what it likes.
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


def _beside(count: int) -> str:
    return (
        f"{format_bytes(count)} of what the allocator holds is not the step's, as far as is known: "
        "other models, and tensors that the program keeps"
    )
