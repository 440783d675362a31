"""Recording a script that knows nothing of it: which calls are steps, and when the allocator is listened to.

The recorder hears of every call that a program makes (`passages`), counts those that train as steps, and turns
TensorFlow's profiler on for a bounded number of them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework.ops import EagerTensor
from tensorflow.python.profiler.internal import _pywrap_profiler, _pywrap_traceme

from lowtide.run.record import Call, Place, Record, Window, report_failure, save_record
from lowtide.sources.profiles.xplane import MARK
from lowtide.tf.record import call_hooks as passages

# The first steps create variables and trace; the allocator settles within about ten.
EARLY_STEPS = 2
SETTLED_STEP = 11
# Bytes in use after every step, thinned out when there are more than this.
MOST_SAMPLES = 4096

# What a look at a step's graph takes beside its constants.
ROOM_TO_LOOK = 8 << 20

OTHER_PROFILER = "the script's own profiler was running, so some steps were not recorded"


@dataclass
class OpenWindow:
    """What is noted while the profiler runs."""

    session: Any
    profile: str
    calls: list[Call] = field(default_factory=list)
    places: dict[int, tuple[Place, ...]] = field(default_factory=dict)


class Recorder:
    """Counts steps, and records the first and some settled ones."""

    def __init__(self, folder: Path, steps: int, limit_bytes: int | None = None) -> None:
        self.folder = folder
        self.settled_steps = steps
        self.settled_from = SETTLED_STEP
        self.limit_bytes = limit_bytes
        self.step = 0
        """Counted from 1, by the calls that train; until something trains, by all calls."""
        self.functions: dict[str, Any] = {}
        """The function of the last call of each kind: at the end, its graph tells names."""
        self._variables: dict[str, tuple[Any, ...]] = {}
        self.arguments: dict[str, tuple[tuple[int, ...] | None, ...]] = {}
        self.windows: list[Window] = []
        self.samples: list[tuple[int, int]] = []
        self.notes: list[str] = []
        self.was_recording = False
        """Whether a window was open when the script ended."""
        self._counts: dict[str, int] = {}
        self._calls = 0
        self._training: dict[tuple[str, int], bool] = {}
        self._has_trained = False
        self._last_settled: int | None = None
        self._open: OpenWindow | None = None
        self._process = os.getpid()
        self._inside = threading.local()
        self._sampled_every = 1
        self.lock = threading.RLock()

    @cached_property
    def lookup(self) -> Any:
        """Made at the first step: when TensorFlow has just been imported, Keras may be half imported."""
        from lowtide.tf.record.addresses import Lookup

        return Lookup()

    # -- calls ------------------------------------------------------------------------------------

    def begin(self, function: str, concrete: Any, inputs: Sequence[Any], trains: Callable[[], bool]) -> int:
        """An outermost call of something that may be a step, or a part of one, begins."""
        self._inside.depth = 1
        try:
            return self._begin(function, concrete, inputs, trains)
        except Exception:
            # Whatever goes wrong here must not change what the script does.
            self._open = None
            report_failure(self.folder)
            return 0

    def end_call(self, number: int) -> None:
        """A call has returned."""
        self._inside.depth = 0
        self._mark(2 * number + 1)

    def fail_call(self) -> None:
        """A call has raised: a step without an end."""
        self._inside.depth = 0

    @property
    def is_inside(self) -> bool:
        """Whether a call is part of one that was counted, or made in a fork of the script: that is another program."""
        return getattr(self._inside, "depth", 0) > 0 or os.getpid() != self._process

    def _begin(self, function: str, concrete: Any, inputs: Sequence[Any], trains: Callable[[], bool]) -> int:
        with self.lock:
            if concrete is not None:
                self._keep(function, concrete)
            if self._is_counted(function, concrete, trains):
                count = self._counts[function] = self._counts.get(function, 0) + 1
                if count > self.step:
                    self._begin_step(count)
            number = self._calls = self._calls + 1
            if self._open is not None:
                self.arguments[function] = tuple(_shape(tensor) for tensor in inputs)
                call = Call(number, self.step, function)
                self._open.calls.append(call)
                self._open.places[call.begin_mark] = self.lookup.places(self._variables.get(function, ()), inputs)
                self._mark(call.begin_mark)
            return number

    def _keep(self, function: str, concrete: Any) -> None:
        """A function knows its variables by weak references, though it keeps their memory."""
        if self.functions.get(function) is concrete:
            return
        # What a tape runs backward takes its values from the way forward, and says nothing by itself.
        if all(isinstance(each, EagerTensor) for each in concrete.captured_inputs):
            self.functions[function] = concrete
            self._variables[function] = tuple(_variables(concrete.graph))

    def _is_counted(self, function: str, concrete: Any, trains: Callable[[], bool]) -> bool:
        # Finding out means going through a graph: once for each, however often a program changes between them.
        key = (function, id(concrete))
        if key not in self._training:
            self._training[key] = trains()
        if self._training[key] and not self._has_trained:
            self._has_trained = True
            if self.step:
                self._start_over()
        return self._training[key] or not self._has_trained

    def _start_over(self) -> None:
        """What came before was an evaluation, or made variables: steps are counted from here."""
        if self._open is not None and self._last_settled is None:
            self._open.calls.clear()
        else:
            self.close_window()
            self.open_window()
        self.step, self._last_settled, self._sampled_every = 0, None, 1
        self._counts.clear()
        self.samples.clear()

    def _begin_step(self, step: int) -> None:
        if self.step:
            self._sample()
        self.step = step
        if step <= EARLY_STEPS:
            # A process may die before the first window closes.
            self.save()
        if step > (self._last_settled or EARLY_STEPS):
            self.look_once_more()
            self.close_window()
        # While the script's own profiler runs it does not open, and later steps are as good.
        if step >= self.settled_from and self._last_settled is None and self.open_window():
            self._last_settled = step + self.settled_steps - 1

    def look_once_more(self) -> None:
        """The last step has moved variables like any other; nobody begins another one that would find out."""
        if self._open is not None:
            number = self._calls = self._calls + 1
            self._open.places[2 * number] = self.lookup.places((), ())
            self._mark(2 * number)

    def _sample(self) -> None:
        if self.step % self._sampled_every:
            return
        self.samples.append((self.step, bytes_in_use()))
        if len(self.samples) > MOST_SAMPLES:
            self._sampled_every *= 2
            self.samples = [sample for sample in self.samples if sample[0] % self._sampled_every == 0]

    def _mark(self, number: int) -> None:
        if self._open is not None:
            _pywrap_traceme.TraceMe(MARK, at=number).Stop()

    # -- windows ----------------------------------------------------------------------------------

    def open_window(self) -> bool:
        """Listen to the allocator; False where somebody else does."""
        session = _pywrap_profiler.ProfilerSession()
        try:
            session.start(str(self.folder / "profile"), {})
        except tf.errors.OpError:
            if OTHER_PROFILER not in self.notes:
                self.notes.append(OTHER_PROFILER)
            return False
        _leave_out_thread_pools()
        self._open = OpenWindow(session, f"window-{len(self.windows) + 1}.xplane.pb")
        if self.step:
            self.lookup.look_anew()
        return True

    def close_window(self) -> None:
        """Stop listening, and write down what was heard."""
        opened, self._open = self._open, None
        if opened is None:
            return
        opened.session.export_to_tb()
        written = max((self.folder / "profile").rglob("*.xplane.pb"), key=lambda path: path.stat().st_mtime_ns)
        shutil.move(written, self.folder / opened.profile)
        shutil.rmtree(self.folder / "profile", ignore_errors=True)
        self.windows.append(Window(opened.profile, tuple(opened.calls), opened.places))
        self.save()

    def last_places(self) -> tuple[Place, ...]:
        """Where variables and arguments were when the last recorded call began."""
        places = self.windows[-1].places if self.windows else {}
        return places[max(places)] if places else ()

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """Neither listen nor count calls meanwhile."""
        was_open = self._open is not None
        self.close_window()
        self._inside.depth = 1
        try:
            yield
        finally:
            self._inside.depth = 0
            if was_open:
                self.open_window()

    def record(self) -> Record:
        return Record(self.limit_bytes, tuple(self.windows), tuple(self.samples), self.step, tuple(self.notes))

    def save(self) -> None:
        save_record(self.record(), self.folder)

    def has_room(self, graph_bytes: int) -> bool:
        """Whether the allocator has enough left for a look at a graph, whose constants are made once more."""
        return self.limit_bytes is None or self.limit_bytes - bytes_in_use() > ROOM_TO_LOOK + 2 * graph_bytes

    def end(self, patience: float = -1) -> None:
        """No more is recorded; a call that is being noted is waited for, at most so many seconds."""
        held = self.lock.acquire(timeout=patience)
        self.was_recording = self._open is not None
        self.close_window()
        self.save()
        if held:
            self.lock.release()


def _leave_out_thread_pools() -> None:
    """The profiler notes each piece of work that a thread pool is given, takes up and ends: 40 to 67% of its events.

    Nothing here reads them, and no option turns them off; TensorFlow's own switch does. Without it they only cost time.
    """
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib()) / "libtensorflow_framework.so.2"))
        library._ZN3tsl8profiler19threadpool_listener10DeactivateEv()


def _variables(graph: Any) -> Iterator[Any]:
    """The variables of a function that are still there; a graph that is asked for all fails where one is not."""
    for reference in graph._weak_variables:
        variable = reference()
        if variable is not None:
            yield variable


def _shape(tensor: Any) -> tuple[int, ...] | None:
    shape = getattr(tensor, "shape", None)
    return None if shape is None or shape.rank is None else tuple(shape.as_list())


def device_name() -> str:
    """The device whose allocator is looked at: the first GPU, else the CPU."""
    return "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"


def limit_bytes() -> int | None:
    """The hard limit that the environment gave to the CPU's allocator."""
    limit = os.environ.get("TF_CPU_BFC_MEM_LIMIT_IN_MB")
    return int(limit) << 20 if limit and limit.isdigit() else None


def bytes_in_use() -> int:
    """What the allocator has given out; 0 where it does not count."""
    try:
        return int(context.context().get_memory_info(device_name())["current"])
    except (tf.errors.OpError, ValueError):
        return 0


_RECORDER: Recorder | None = None


def start(folder: Path, steps: int) -> Recorder:
    """Begin to record this process; TensorFlow has just been imported."""
    global _RECORDER
    recorder = _RECORDER = Recorder(folder, steps, limit_bytes())
    recorder.save()
    recorder.open_window()
    passages.watch_functions(recorder)
    passages.watch_sessions(recorder)
    passages.watch_tapes(recorder)
    passages.make_way_for_the_scripts_profiler(recorder)
    from lowtide.tf.record.crash_handler import listen

    listen(recorder)
    return recorder


@contextmanager
def aside() -> Iterator[None]:
    """TensorFlow has one profiler: the record of a script pauses while lowtide itself runs steps in its process."""
    if _RECORDER is None:
        yield
        return
    with _RECORDER.pausing():
        yield


def finish(error: BaseException | None) -> None:
    """The script has ended: say what is known of its steps."""
    global _RECORDER
    recorder, _RECORDER = _RECORDER, None
    if recorder is None:
        return
    from lowtide.tf.record.finish_recording import conclude

    recorder.end()
    if error is None or not isinstance(error, KeyboardInterrupt):
        conclude(recorder, error)
