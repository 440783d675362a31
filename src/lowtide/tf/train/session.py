"""The run that this process belongs to: its directory, its settings, how far it is, and when to stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from tensorflow.python.eager import context

from lowtide.errors import LowtideError
from lowtide.program.machine import processor_count
from lowtide.run.train.checkpoint_files import newest_checkpoint
from lowtide.run.train.history import Event, Failed, Note, Planned
from lowtide.run.train.run_directory import RunDirectory, TrainingRecord, new_record, this_script
from lowtide.run.train.settings import CHECKPOINT_SECONDS, AttemptSettings
from lowtide.tf.train.background_writer import BackgroundWriter
from lowtide.tf.train.plain_data import load_state
from lowtide.tf.train.results import Results
from lowtide.tf.train.script_line import Line, calling_line
from lowtide.units import format_count

# A checkpoint at the end of an epoch is left out while it would cost more than this share of the time.
_CHECKPOINT_SHARE = 0.01
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_sessions: dict[Path, RunSession] = {}


class RunSession:
    """The run of this process.

    The script may train several times; each training has a number, counted from 0. `found` is the newest checkpoint
    when the process started.
    """

    def __init__(self, directory: RunDirectory, settings: AttemptSettings, *, is_supervised: bool) -> None:
        self.directory = directory
        self.settings = settings
        self.is_supervised = is_supervised
        self.models: list[int] = []
        """For each training that has begun in this process, the first one of the same model."""
        self._is_fitting = threading.Lock()
        self._lines: list[Line] = []
        self._first_trainings: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.plans = 0
        """The number of plans that this process has used."""
        self.stop_signal: int | None = None
        self.steps_done = 0
        """Steps of the whole run."""
        self.found, damaged = newest_checkpoint(directory.checkpoints)
        self.found_state: dict[str, Any] | None = None
        instead = "there is none before it" if self.found is None else "the one before it is used"
        for each in damaged:
            self.note(f"checkpoint {each.path.name} is damaged ({each.problem}); {instead}")
        if self.found is not None:
            self.found_state = load_state(self.found)
        self.writer = BackgroundWriter()
        self._saved = time.monotonic()
        self._steps_when_saved = 0
        self._blocked_seconds = 0.0

    @property
    def found_training(self) -> int:
        """The number of the training that the newest checkpoint belongs to; -1 without a checkpoint."""
        return -1 if self.found_state is None else int(self.found_state["training"])

    @property
    def attempt(self) -> int:
        """The number of the attempt."""
        return self.settings.attempt

    def add(self, event: Event) -> None:
        """Append an event to the history of the run."""
        self.directory.history.append(event)

    def note(self, text: str) -> None:
        """Tell the user something: through the supervisor, or on standard error."""
        self.add(Note(attempt=self.attempt, text=text))
        if not self.is_supervised:
            print(f"lowtide: {text}", file=sys.stderr, flush=True)

    def begin_training(self, model: Any) -> int:
        """Return the number of the training of a model that begins."""
        number = self._number(line := calling_line())
        for skipped in range(len(self.models), number):
            # Their results are elsewhere, as in a file that the script has found.
            self.models.append(skipped)
            self._lines.append(self._found_lines[skipped])
        self.models.append(self._first_trainings.setdefault(model, number))
        self._lines.append(line)
        return number

    def _number(self, line: Line) -> int:
        """Return the number of the training that a line begins; a script may leave out some of those that ended."""
        number, known = len(self.models), self._found_lines
        if line in known[number:]:
            return known.index(line, number)
        # If the file was edited, the order counts.
        return max(number, len(known)) if number < len(known) and known[number].is_unchanged else number

    @property
    def lines(self) -> list[list[Any]]:
        """For each training the line of the script that began it, as data for `save_state`."""
        return [list(each) for each in self._lines]

    @property
    def _found_lines(self) -> list[Line]:
        return [Line(*each) for each in (self.found_state or {"lines": []})["lines"]]

    @cached_property
    def results(self) -> Results:
        """The results of trainings that have ended."""
        return Results.read(self.directory.checkpoints)

    def planned_pieces(self, training: int) -> dict[int | None, int]:
        """Return for sizes of batches how many micro-batches an earlier attempt has planned for the same budget."""
        plans = [event for event in self.directory.history.read() if isinstance(event, Planned)]
        return {
            plan.batch_size: plan.pieces
            for number in (self.models[training], training)
            for plan in plans
            if plan.training == number
            and plan.attempt < self.attempt
            and plan.budget_bytes == self.settings.budget_bytes
        }

    def data_seed(self, training: int) -> int:
        """Return the seed of the order of a training's data: the script's own seed if it has set one."""
        seed = context.global_seed()
        return (self.settings.seed if seed is None else int(seed)) + training

    @property
    def is_seeded_by_script(self) -> bool:
        """Whether the script has set TensorFlow's global seed."""
        seed = context.global_seed()
        # A supervised process begins with the seed of the run.
        return seed is not None and not (self.is_supervised and int(seed) == self.settings.seed)

    def continue_after(self, steps_done: int) -> None:
        """Count steps from those of a checkpoint on."""
        self.steps_done = self._steps_when_saved = steps_done

    def saved(self, blocked_seconds: float) -> None:
        """Say that a checkpoint has the state of now, and how long the training has waited for it."""
        self._saved, self._blocked_seconds, self._steps_when_saved = time.monotonic(), blocked_seconds, self.steps_done

    def reason_to_save(self) -> str | None:
        """Return why a checkpoint is due after a step; None if it is not."""
        every = self.settings.checkpoint_steps
        if every is not None and self.steps_done - self._steps_when_saved >= every:
            return f"every {format_count(every, 'step')}"
        if self.writer.is_writing:
            return None
        seconds = self.settings.checkpoint_seconds
        return f"every {seconds / 60:g} minutes" if time.monotonic() - self._saved >= seconds else None

    def is_worth_saving(self) -> bool:
        """Whether a checkpoint at the end of an epoch costs little of the time since the last one.

        The training has waited for that one, and was without one of its processors while it was written.
        """
        if self.writer.is_writing:
            return False
        cost = self._blocked_seconds + self.writer.seconds / processor_count()
        return cost <= (time.monotonic() - self._saved) * _CHECKPOINT_SHARE

    def steps_of_failure(self, error: BaseException) -> int:
        """Return the steps after which an error occurred; for a checkpoint in the background, those of its state."""
        return self.writer.failed_steps if error is self.writer.failure else self.steps_done

    @contextmanager
    def one_fit(self) -> Iterator[None]:
        """Refuse a `fit` while another thread is in one: a restart could not tell which of them a checkpoint is of."""
        if not self._is_fitting.acquire(blocking=False):
            raise LowtideError(
                "a run can continue one fit at a time",
                given="fit in several threads",
                cure="fit one model after the other, or begin a run for each in a process of its own",
            )
        try:
            yield
        finally:
            self._is_fitting.release()

    @contextmanager
    def catching_signals(self) -> Iterator[None]:
        """Let signals end the training after its next step, with a checkpoint; a second one ends it now."""
        before: dict[int, Any] = {}

        def stop(number: int, frame: FrameType | None) -> None:
            self.stop_signal = number
            signal.signal(number, before[number])

        if threading.current_thread() is threading.main_thread():
            for name in _STOPPING:
                number = int(name)
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def leave(self) -> None:
        """End the process after a signal, once its checkpoint is written."""
        number = self.stop_signal
        assert number is not None
        if not self.is_supervised:
            print(f"lowtide: stopped by {signal.Signals(number).name}; start again to continue", file=sys.stderr)
            # In a notebook, this process starts again.
            close_session(self)
        if number == signal.SIGINT:
            # The script may catch it, as without lowtide.
            interrupt = KeyboardInterrupt()
            if self.is_supervised:
                _show_no_traceback(interrupt)
            raise interrupt
        raise SystemExit(128 + number)


def _show_no_traceback(error: BaseException) -> None:
    """Let an exception end the process without a traceback: the supervisor says what has happened."""
    show = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is not error:
            show(kind, value, trace)

    sys.excepthook = hook


def check_intervals(minutes: float | None, steps: int | None) -> None:
    """Refuse times and numbers of steps that are none."""
    if minutes is not None and minutes < 0:
        raise LowtideError("checkpoints need a time between them", given=f"minutes={minutes}", cure="try 5")
    if steps is not None and steps < 1:
        raise LowtideError("checkpoints need steps between them", given=f"steps={steps}", cure="try 1000")


def open_session(folder: str | os.PathLike[str], *, seconds: float | None, steps: int | None) -> RunSession:
    """Return the session of a process without a supervisor; one per directory.

    The process keeps the lock of the directory until it ends.
    """
    path = Path(folder).resolve()
    if path not in _sessions:
        directory = RunDirectory(path)
        directory.lock()
        if not directory.exists:
            directory.create(new_record(this_script()))
        record = directory.load()
        changes = _check_program(directory, record)
        attempts = [event.attempt for event in directory.history.read()]
        settings = AttemptSettings(
            str(path),
            max(attempts, default=0) + 1,
            record.seed,
            checkpoint_seconds=CHECKPOINT_SECONDS if seconds is None else seconds,
            checkpoint_steps=steps,
        )
        session = RunSession(directory, settings, is_supervised=False)
        for change in changes:
            session.note(change)
        _sessions[path] = session
    return _sessions[path]


def close_session(session: RunSession) -> None:
    """Let the next training of this process begin where the run is, as another process would."""
    session.writer.join()
    session.directory.unlock()
    for path in [path for path, each in _sessions.items() if each is session]:
        del _sessions[path]


def _check_program(directory: RunDirectory, record: TrainingRecord) -> list[str]:
    """Refuse the run of another script; return what is different in this process."""
    script = this_script()
    if record.path.name != Path(script.target).name:
        raise LowtideError(
            f"{directory.folder} holds the run of another program",
            given=f"{script.target}, and the run is of {record.words}",
            cure="name another directory",
        )
    if record.script.arguments != script.arguments:
        return [f"the run in {directory.folder} began with other arguments, and continues: {record.words}"]
    changes = directory.changes_since(record) if record.path.is_file() else None
    return [] if changes is None else [f"warning: {changes}"]


_settings: AttemptSettings | None = None
_supervised: RunSession | None = None


def begin_supervised(settings: AttemptSettings) -> None:
    """Let this process belong to the run of the supervisor that started it."""
    global _settings
    _settings = settings


def add_failure(error: BaseException, *, is_memory: bool) -> None:
    """Say by which exception this process of a supervisor is about to end."""
    assert _settings is not None
    failed = Failed(
        attempt=_settings.attempt,
        error=type(error).__name__,
        message=str(error)[:2000],
        is_memory=is_memory,
        steps_done=0 if _supervised is None else _supervised.steps_of_failure(error),
    )
    RunDirectory(_settings.folder).history.append(failed)


def supervised_session() -> RunSession | None:
    """Return the session of a process that a supervisor started; None in any other.

    It is made when a training first asks for it, because TensorFlow may be imported while Keras is.
    """
    global _supervised
    if _supervised is None and _settings is not None:
        directory = RunDirectory(_settings.folder)
        if not directory.exists:
            raise LowtideError("the directory of the run is gone", given=_settings.folder)
        _supervised = RunSession(directory, _settings, is_supervised=True)
    return _supervised
