"""Records the allocator's events during some steps of a program.

The recorder is notified of every call that the program makes (`call_listener`), counts those that train as steps, and
runs TensorFlow's profiler during a bounded number of them.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf
from tensorflow.python.framework.ops import EagerTensor
from tensorflow.python.profiler.internal import _pywrap_profiler, _pywrap_traceme

from lowtide.run.record import TAPE, Call, RunRecord, Window, report_failure, save_record
from lowtide.sources.profiles.xplane import MARK
from lowtide.tf.record.device import bytes_in_use, disable_thread_pool_events
from lowtide.tide.owner import Owner

if TYPE_CHECKING:
    from lowtide.tf.record.held_objects import HeldObjects

# The first steps create variables and trace; the allocator reaches a steady state within about ten.
EARLY_STEPS = 2
FIRST_STEADY_STEP = 11
# Samples of the bytes in use after a step; every other one is dropped when there are more.
MAX_SAMPLES = 4096
# Memory that inspecting a step's graph needs, besides a copy of the graph's constants.
INSPECTION_BYTES = 8 << 20

OTHER_PROFILER = "the script's own profiler was running, so some steps were not recorded"


@dataclass
class OpenWindow:
    """What is recorded while the profiler runs."""

    session: Any
    profile: str
    calls: list[Call] = field(default_factory=list)
    owners: dict[int, tuple[Owner, ...]] = field(default_factory=dict)
    is_eager: bool = False
    """Whether ops that run eagerly are described."""


class StepCall(NamedTuple):
    """The traced function of a call, None without one, and the shapes of its arguments."""

    concrete: Any
    shapes: tuple[tuple[int, ...] | None, ...]


class Recorder:
    """Counts steps, and records the first ones and some steady ones."""

    def __init__(self, folder: Path, steps: int, limit_bytes: int | None = None) -> None:
        self.folder = folder
        self.steady_steps = steps
        self.first_steady_step = FIRST_STEADY_STEP
        self.limit_bytes = limit_bytes
        self.step = 0
        """The current step, counted from 1: calls that train are counted, or all calls until one trains."""
        self.functions: dict[str, Any] = {}
        """The last called function of each name; its graph gives names to buffers at the end."""
        self._variables: dict[str, tuple[Any, ...]] = {}
        self.step_calls: dict[tuple[int, str], StepCall] = {}
        """The last recorded call of each function in each step: other steps may have called another trace of it."""
        self.windows: list[Window] = []
        self.samples: list[tuple[int, int]] = []
        self.notes: list[str] = []
        self.was_recording = False
        """Whether a window was open when recording ended."""
        self.held: HeldObjects | None = None
        """What the script holds in Python, if that is looked for."""
        self._counts: dict[str, int] = {}
        self._calls = 0
        self._training: dict[tuple[str, int], bool] = {}
        self._has_trained = False
        self._last_steady_step: int | None = None
        self._open: OpenWindow | None = None
        self._process = os.getpid()
        self._inside = threading.local()
        self._sampled_every = 1
        self._updates = 0
        """How often an optimizer has updated variables outside of functions."""
        self._updates_before: dict[str, int] = {}
        """The number of updates when the tape of a line was last counted."""
        self._tape_call: int | None = None
        """The number of the call that stands for the last gradient tape."""
        self.eager_batches: dict[int, int] = {}
        """The batch size of each recorded step that runs eagerly."""
        self.lock = threading.RLock()

    @cached_property
    def lookup(self) -> Any:
        """Created at the first step: it needs Keras, which may be partly imported when TensorFlow has just been."""
        from lowtide.tf.record.addresses import AddressLookup

        return AddressLookup()

    @cached_property
    def eager(self) -> Any:
        """Created at the first step that runs eagerly, for the same reason."""
        from lowtide.tf.eager_hooks import hook_updates
        from lowtide.tf.record.eager_step import EagerStep

        hook_updates(self.begin_update)
        return EagerStep(self.record_owners, self.lookup.layer_of_handle, lambda: report_failure(self.folder))

    # -- calls ------------------------------------------------------------------------------------

    def begin_call(self, function: str, concrete: Any, inputs: Sequence[Any], trains: Callable[[], bool]) -> int:
        """Record that an outermost call begins, which may be a step or a part of one; returns the call's number."""
        self._inside.depth = 1
        try:
            return self._begin_call(function, concrete, inputs, trains)
        except Exception:
            # A failure of the recorder must not change what the script does.
            opened, self._open = self._open, None
            if opened is not None and opened.is_eager:
                self._stop_describing()
            report_failure(self.folder)
            return 0

    def begin_tape(self, function: str) -> None:
        """Record that an outermost gradient tape is opened: the begin of a step, unless the step has more tapes.

        If an optimizer updates the variables, a step lasts from one update to the next, and the tapes of one line are
        counted once in between. The tape's call ends with its backward pass or with the update.
        """
        with self.lock:
            self._tape_call = self.begin_call(function, None, (), lambda: True)
            self._inside.depth = 0
            try:
                # Also hooks updates, which are counted while nothing is recorded too.
                self.eager.batch_size = None
                if self._open is not None and not self._open.is_eager:
                    self._open.is_eager = True
                    self._describe_eager_ops()
            except Exception:
                self._tape_call = None
                report_failure(self.folder)

    def eager_batch(self, step: int) -> int | None:
        """The rows of the batch of a recorded step that runs eagerly; None if it called no layer."""
        is_running = self._tape_call is not None and step == self.step
        return self.eager_batches.get(step) or (self.eager.batch_size if is_running else None)

    @property
    def has_tapes(self) -> bool:
        """Whether the program has opened a gradient tape outside of functions."""
        return self._tape_call is not None

    @property
    def failed_op(self) -> Owner | None:
        """The eager op that ran out of memory in a recorded step, or that the process died in."""
        failed: Owner | None = None if self._tape_call is None else self.eager.failed or self.eager.running
        return failed

    def begin_backward(self) -> Callable[[bool], None] | None:
        """Record that a tape computes gradients, until the returned function is called."""
        return self._begin_pass() if self._tape_call is not None else None

    def begin_update(self) -> Callable[[bool], None] | None:
        """Record that an optimizer updates variables, until the returned function is called."""
        if self._tape_call is None or self.is_inside or not tf.executing_eagerly():
            return None
        end_pass = self._begin_pass()

        def end_update(has_failed: bool) -> None:
            end_pass(has_failed)
            with self.lock:
                self._updates += 1
                # Until the first update it was not known that a step has several tapes.
                counts = [count for function, count in self._counts.items() if function.startswith(TAPE)]
                if self._updates == 1 and max(counts, default=0) > 1:
                    self._start_over()

        return end_update

    def _begin_pass(self) -> Callable[[bool], None]:
        end_description = self.eager.begin_pass()

        def end_pass(has_failed: bool) -> None:
            end_description(has_failed)
            if self.eager.batch_size is not None:
                self.eager_batches[self.step] = self.eager.batch_size
            if self._tape_call is not None and not has_failed:
                self._mark(2 * self._tape_call + 1)

        return end_pass

    def end_call(self, number: int, has_failed: bool = False) -> None:
        """Record that a call has ended; the end of one that raised is not marked."""
        self._inside.depth = 0
        if not has_failed:
            self._mark(2 * number + 1)

    @property
    def is_inside(self) -> bool:
        """Whether a call that begins now is part of another one, or is made in a fork of the script."""
        return getattr(self._inside, "depth", 0) > 0 or os.getpid() != self._process

    def _begin_call(self, function: str, concrete: Any, inputs: Sequence[Any], trains: Callable[[], bool]) -> int:
        with self.lock:
            if concrete is not None:
                self._keep_function(function, concrete)
            if self._is_counted(function, concrete, trains):
                count = self._counts[function] = self._counts.get(function, 0) + 1
                if count > self.step:
                    self._begin_step(count)
            number = self._calls = self._calls + 1
            if self._open is not None:
                self.step_calls[self.step, function] = StepCall(concrete, tuple(_shape(tensor) for tensor in inputs))
                call = Call(number, self.step, function)
                captured = () if concrete is None else concrete.captured_inputs
                held = self.held.look(captured) if self.held is not None and not self._open.calls else ()
                self._open.calls.append(call)
                if function.startswith(TAPE):
                    # A function captures its variables; those of an eager step may be new.
                    self.lookup.refresh()
                owners = self._find_owners(self._variables.get(function, ()), inputs)
                self._open.owners[call.begin_mark] = (*held, *owners)
                self._mark(call.begin_mark)
            return number

    def _keep_function(self, function: str, concrete: Any) -> None:
        """Keep a function and its variables, to which it has weak references only."""
        if self.functions.get(function) is concrete:
            return
        # A backward function captures values of the forward pass and cannot be inspected by itself.
        if all(isinstance(each, EagerTensor) for each in concrete.captured_inputs):
            self.functions[function] = concrete
            self._variables[function] = tuple(_variables(concrete.graph))

    def _is_counted(self, function: str, concrete: Any, trains: Callable[[], bool]) -> bool:
        if function.startswith(TAPE) and self._updates:
            if self._updates_before.get(function) == self._updates:
                return False
            self._updates_before[function] = self._updates
        # `trains` searches a graph, so its result is kept for each function.
        key = (function, id(concrete))
        if key not in self._training:
            self._training[key] = trains()
        if self._training[key] and not self._has_trained:
            self._has_trained = True
            if self.step:
                self._start_over()
        return self._training[key] or not self._has_trained

    def _start_over(self) -> None:
        """Count steps from here: the calls before were evaluations, or created variables."""
        if self._open is not None and self._last_steady_step is None:
            self._open.calls.clear()
        else:
            self.close_window()
            self.open_window()
        self.step, self._last_steady_step, self._sampled_every = 0, None, 1
        self._counts.clear()
        self.samples.clear()

    def _begin_step(self, step: int) -> None:
        if self.step:
            self._sample()
        self.step = step
        if step <= EARLY_STEPS:
            # The process may die before the first window closes.
            self.save()
        if step > (self._last_steady_step or EARLY_STEPS):
            self.record_final_addresses()
            self.close_window()
        # No window opens while the script's own profiler runs; later steps are recorded then.
        if step >= self.first_steady_step and self._last_steady_step is None and self.open_window():
            self._last_steady_step = step + self.steady_steps - 1

    def record_final_addresses(self) -> None:
        """Record where the last step of a window left its variables: no call follows that would."""
        if self._open is not None:
            self.record_owners(self._find_owners((), ()))

    def record_owners(self, owners: tuple[Owner, ...]) -> None:
        """Record the owners of addresses at this moment, if a window is open."""
        with self.lock:
            if self._open is not None:
                number = self._calls = self._calls + 1
                self._open.owners[2 * number] = owners
                self._mark(2 * number)

    def _find_owners(self, captured: Sequence[Any], inputs: Sequence[Any]) -> tuple[Owner, ...]:
        if self._open is None or not self._open.is_eager:
            return tuple(self.lookup.owners(captured, inputs))
        with self.eager.suspended():
            return tuple(self.lookup.owners(captured, inputs))

    def _sample(self) -> None:
        if self.step % self._sampled_every:
            return
        self.samples.append((self.step, bytes_in_use()))
        if len(self.samples) > MAX_SAMPLES:
            self._sampled_every *= 2
            self.samples = [sample for sample in self.samples if sample[0] % self._sampled_every == 0]

    def _mark(self, number: int) -> None:
        if self._open is not None:
            _pywrap_traceme.TraceMe(MARK, at=number).Stop()

    # -- windows ----------------------------------------------------------------------------------

    def open_window(self) -> bool:
        """Start recording the allocator's events; False if another profiler runs."""
        session = _pywrap_profiler.ProfilerSession()
        try:
            session.start(str(self.folder / "profile"), {})
        except tf.errors.OpError:
            if OTHER_PROFILER not in self.notes:
                self.notes.append(OTHER_PROFILER)
            return False
        disable_thread_pool_events()
        self._open = OpenWindow(session, f"window-{len(self.windows) + 1}.xplane.pb")
        if self.step:
            self.lookup.forget_shared_reads()
        return True

    def close_window(self) -> None:
        """Stop recording, and write the recorded events to a file."""
        opened, self._open = self._open, None
        if opened is None:
            return
        opened.session.export_to_tb()
        written = max((self.folder / "profile").rglob("*.xplane.pb"), key=lambda path: path.stat().st_mtime_ns)
        shutil.move(written, self.folder / opened.profile)
        shutil.rmtree(self.folder / "profile", ignore_errors=True)
        described = self._stop_describing() if opened.is_eager else ()
        self.windows.append(Window(opened.profile, tuple(opened.calls), opened.owners, described))
        self.save()

    def _describe_eager_ops(self) -> None:
        """Describe each op from here to the end of the window."""
        from lowtide.tf.eager_hooks import install

        self.eager.forget_tensors()
        install(self.eager)

    def _stop_describing(self) -> tuple[Owner, ...]:
        """Stop describing ops, and return the descriptions."""
        from lowtide.tf.eager_hooks import uninstall

        uninstall()
        return tuple(self.eager.descriptions)

    def find_call(self, function: str, step: int | None) -> StepCall:
        """The call of a function in a recorded step, or its last call if that step is not known."""
        call = self.step_calls.get((step or 0, function))
        if call is not None and call.concrete is not None:
            return call
        shapes = [each.shapes for (_, name), each in self.step_calls.items() if name == function]
        return StepCall(self.functions[function], shapes[-1] if shapes else ())

    def last_owners(self) -> tuple[Owner, ...]:
        """The addresses of variables and arguments when the last recorded call began."""
        return self.windows[-1].owners_at_last_call if self.windows else ()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Neither record events nor count calls meanwhile."""
        was_open = self._open is not None
        self.close_window()
        self._inside.depth = 1
        try:
            yield
        finally:
            self._inside.depth = 0
            if was_open:
                self.open_window()

    def record(self) -> RunRecord:
        return RunRecord(self.limit_bytes, tuple(self.windows), tuple(self.samples), self.step, tuple(self.notes))

    def save(self) -> None:
        save_record(self.record(), self.folder)

    def has_room(self, graph_bytes: int) -> bool:
        """Whether enough memory is left to inspect a graph, which copies its constants."""
        return self.limit_bytes is None or self.limit_bytes - bytes_in_use() > INSPECTION_BYTES + 2 * graph_bytes

    def end(self, lock_seconds: float = -1) -> None:
        """Stop recording, after waiting at most `lock_seconds` for a call that another thread is recording."""
        held = self.lock.acquire(timeout=lock_seconds)
        self.was_recording = self._open is not None
        self.close_window()
        self.save()
        if held:
            self.lock.release()


def _variables(graph: Any) -> Iterator[Any]:
    """The variables of a function that still exist; `graph.variables` raises if one does not."""
    for reference in graph._weak_variables:
        variable = reference()
        if variable is not None:
            yield variable


def _shape(tensor: Any) -> tuple[int, ...] | None:
    shape = getattr(tensor, "shape", None)
    return None if shape is None or shape.rank is None else tuple(shape.as_list())
