"""Runs the script of a run again and again, each time from its last checkpoint, until the training has ended."""

from __future__ import annotations

import os
import signal as signals
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from lowtide.errors import LowtideError
from lowtide.oom.evidence import Evidence, Request
from lowtide.oom.heap import read_memory_dump
from lowtide.oom.shortage import Shortage, explain_evidence
from lowtide.run.launch import Ending, launch, signal_name
from lowtide.run.machine import count_group_kills, group_bytes, machine_bytes
from lowtide.run.outcome import read_outcome
from lowtide.run.record import read_failure
from lowtide.run.train.attempt_cause import find_attempt_cause, stop_signal
from lowtide.run.train.decisions import (
    DEVICE_MEMORY,
    FINISHED,
    HOST_MEMORY,
    INTERRUPTED,
    KILLED,
    RESTART,
    decide,
    describe_changes,
    is_lowered,
    whole_mib,
)
from lowtide.run.train.history import (
    AttemptEnded,
    AttemptStarted,
    Decided,
    Event,
    Failed,
    Note,
    RunEnded,
    TrainingStarted,
)
from lowtide.run.train.history_tail import HistoryTail
from lowtide.run.train.narrator import STOPPED
from lowtide.run.train.run_directory import RunDirectory, TrainingRecord
from lowtide.run.train.settings import CHECKPOINT_SECONDS, VARIABLE, AttemptSettings, read_settings

FAILED = "failed"
"""The status of a run that was given up."""
_MEMORY = (DEVICE_MEMORY, HOST_MEMORY, RESTART)
_SETTINGS = "settings.json"
_CPU_LIMIT = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
# A crash handler may take two minutes to write what the process knew.
_FRESH_SECONDS = 300.0


def train(
    directory: RunDirectory,
    record: TrainingRecord,
    on_event: Callable[[Event], None],
    *,
    recorder: str | None = None,
    stdout_to_stderr: bool = False,
    on_shortage: Callable[[Shortage], None] = lambda shortage: None,
) -> int:
    """Run the script until its training has ended, or nothing more can be done; returns the exit code.

    The run continues where its history ends. `on_event` is called for each new event of the history in its order, from
    any thread but never by two at once; `on_shortage` with the explanation if the run ends because memory ran out.
    `recorder` names the module that keeps the training going in the script's process. The caller holds the lock.
    """
    return _Supervisor(directory, record, on_event, on_shortage, recorder, stdout_to_stderr).run()


@dataclass(frozen=True)
class _EndedAttempt:
    """An attempt that has ended."""

    ending: Ending
    cause: str
    shortages: tuple[Shortage, ...]


class _StoppedError(Exception):
    """A signal to stop arrived while no script was running."""

    def __init__(self, number: int) -> None:
        super().__init__(signal_name(number))
        self.number = number


class _Supervisor:
    """The attempts of a run."""

    def __init__(
        self,
        directory: RunDirectory,
        record: TrainingRecord,
        on_event: Callable[[Event], None],
        on_shortage: Callable[[Shortage], None],
        recorder: str | None,
        stdout_to_stderr: bool,
    ) -> None:
        self.directory = directory
        self.record = record
        self.tail = HistoryTail(directory, on_event)
        self.on_shortage = on_shortage
        self.recorder = recorder
        self.stdout_to_stderr = stdout_to_stderr
        self.script = record.script
        self.first_settings = self._first_settings()

    def run(self) -> int:
        """Run attempts until the run ends; returns the exit code."""
        settings = self._continued(self._last_attempt)
        try:
            with _stop_signals():
                status, exit_code = self._run_attempts(settings)
        except _StoppedError as stop:
            status, exit_code = STOPPED, 128 + stop.number
        self.tail.add(RunEnded(attempt=self._last_attempt, status=status, exit_code=exit_code))
        return exit_code

    @property
    def _last_attempt(self) -> int:
        return max((event.attempt for event in self.tail.events if isinstance(event, AttemptStarted)), default=0)

    def _run_attempts(self, settings: AttemptSettings) -> tuple[str, int]:
        """Run attempts until the run ends; returns its status and its exit code."""
        while True:
            number = self._last_attempt + 1
            attempt = self._attempt(settings.changed(attempt=number))
            if attempt.cause == FINISHED:
                self._warn_if_nothing_trained(number)
                return FINISHED, 0
            if attempt.cause == INTERRUPTED:
                stopped_by = stop_signal(attempt.ending)
                return STOPPED, 0 if stopped_by is None else 128 + stopped_by
            decision = decide(settings, self.tail.events, self.limit_bytes)
            number += decision.settings is not None
            self.tail.add(Decided(attempt=number, change=decision.change, reason=decision.reason))
            if decision.settings is None:
                for shortage in attempt.shortages[-1:]:
                    self.on_shortage(shortage)
                return FAILED, 1 if attempt.cause in _MEMORY else attempt.ending.as_exit_code
            settings = decision.settings

    # -- settings ---------------------------------------------------------------------------------

    @property
    def limit_bytes(self) -> int:
        """The limit of the device's memory."""
        if self.record.budget_bytes is not None:
            return self.record.budget_bytes
        given = os.environ.get(_CPU_LIMIT, "")
        if given.isdigit() and int(given):
            return int(given) << 20
        return min(machine_bytes(), group_bytes() or machine_bytes())

    def _first_settings(self) -> AttemptSettings:
        record = self.record
        return AttemptSettings(
            run=str(self.directory.folder.absolute()),
            attempt=1,
            seed=record.seed,
            budget_bytes=None if record.budget_bytes is None else whole_mib(record.budget_bytes),
            allow=record.allow,
            checkpoint_seconds=CHECKPOINT_SECONDS if record.checkpoint_seconds is None else record.checkpoint_seconds,
            checkpoint_steps=record.checkpoint_steps,
        )

    def _continued(self, number: int) -> AttemptSettings:
        """Return the settings to continue with after an attempt: what was changed for lack of memory stays changed."""
        first = self.first_settings
        try:
            text = (self.directory.attempt_folder(number) / _SETTINGS).read_text(encoding="utf-8")
            last = read_settings({VARIABLE: text})
        except (OSError, ValueError, TypeError, KeyError):
            last = None
        if last is None:
            return first
        budget = last.budget_bytes
        if first.budget_bytes is not None and (budget is None or not is_lowered(budget, first.budget_bytes)):
            # The user has given another budget since.
            budget = first.budget_bytes
        return first.changed(budget_bytes=budget, splits=last.splits, data_share=last.data_share)

    # -- attempts ---------------------------------------------------------------------------------

    def _attempt(self, settings: AttemptSettings) -> _EndedAttempt:
        number = settings.attempt
        folder = self.directory.attempt_folder(number)
        variables = {**settings.to_environment(), "PYTHONHASHSEED": "0"}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _SETTINGS).write_text(variables[VARIABLE], encoding="utf-8")
        except OSError as error:
            raise self._cannot("write", error, folder) from error
        if self.record.budget_bytes is None:
            # A container may have less than the machine.
            variables[_CPU_LIMIT] = str(self.limit_bytes >> 20)
        command, changes = tuple(self.script.command), describe_changes(self.first_settings, settings)
        self.tail.add(
            AttemptStarted(attempt=number, command=command, budget_bytes=settings.budget_bytes, changes=changes)
        )
        before = count_group_kills()
        with self.tail.following():
            ending = self._launch(folder, variables)
        return self._ended(settings, folder, ending, before)

    def _launch(self, folder: Path, variables: dict[str, str]) -> Ending:
        try:
            return launch(
                self.script,
                folder,
                limit_bytes=self.record.budget_bytes,
                steps=0,
                recorder=self.recorder,
                stdout_to_stderr=self.stdout_to_stderr,
                variables=variables,
                working_folder=Path(self.record.folder),
            )
        except OSError as error:
            raise self._cannot("start the script", error, error.filename) from error

    def _cannot(self, action: str, error: OSError, given: object) -> LowtideError:
        cure = f"when that is solved, continue with lowtide train --resume {self.directory.folder}"
        return LowtideError(f"cannot {action}: {error.strerror}", given=given, cure=cure)

    def _ended(
        self, settings: AttemptSettings, folder: Path, ending: Ending, group_kills_before: int | None
    ) -> _EndedAttempt:
        """Find out why an attempt ended, and add it to the history."""
        events = [event for event in self.tail.events if event.attempt == settings.attempt]
        group_kills = _increase(group_kills_before, count_group_kills())
        # The counter of the control group does not count processes of other programs.
        was_out_of_memory = bool(ending.kills if group_kills is None else group_kills)
        dump = _fresh_dump(folder)
        shortages = () if ending.exit_code == 0 else self._explain_log(folder, ending)
        cause = find_attempt_cause(
            ending, events, shortages, has_dump=dump is not None, was_out_of_memory=was_out_of_memory
        )
        if cause in (DEVICE_MEMORY, HOST_MEMORY) and not shortages:
            shortages = self._explain_without_log(dump, was_killed=was_out_of_memory, is_of_group=bool(group_kills))
        problem = read_failure(folder)
        if problem is not None:
            self.tail.add(Note(attempt=settings.attempt, text=problem))
        shortages = shortages if cause in _MEMORY else ()
        self.tail.add(
            AttemptEnded(
                attempt=settings.attempt,
                cause=cause,
                words=describe_end(ending, events, cause),
                exit_code=ending.as_exit_code,
                signal=ending.signal,
                seconds=ending.seconds,
                explanation=_explanation(shortages),
            )
        )
        return _EndedAttempt(ending, cause, shortages)

    def _explain_log(self, folder: Path, ending: Ending) -> tuple[Shortage, ...]:
        # A process may die while it writes what it knows; the run goes on without an explanation then.
        with suppress(LowtideError, OSError):
            return read_outcome(folder, ending, self.script.target).shortages
        return ()

    def _explain_without_log(self, dump: Path | None, *, was_killed: bool, is_of_group: bool) -> tuple[Shortage, ...]:
        """Explain a process that left no message: the kernel killed it, or the allocator has written its blocks."""
        if was_killed:
            limit = group_bytes() if is_of_group else None
            evidence = Evidence(Request(), exhausted="machine" if limit is None else "container", limit_bytes=limit)
            return (explain_evidence(evidence, self.script.target),)
        with suppress(LowtideError, OSError):
            if dump is not None:
                heap = read_memory_dump(dump, limit_bytes=self.record.budget_bytes)
                return (explain_evidence(Evidence(Request()).with_heap(heap), self.script.target),)
        return ()

    def _warn_if_nothing_trained(self, attempt: int) -> None:
        if not any(isinstance(event, TrainingStarted) for event in self.tail.events):
            text = "the script did not train: no call of fit and no lt.Training"
            self.tail.add(Note(attempt=attempt, text=text))


@contextmanager
def _stop_signals() -> Iterator[None]:
    """Raise `_StoppedError` for signals that arrive between attempts; during one they go to the script."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _StoppedError(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stops = (signals.SIGINT, signals.SIGTERM, signals.SIGHUP)
    before = {number: signals.getsignal(number) for number in stops}
    for number, handler in before.items():
        # A signal that is ignored here, such as SIGHUP under nohup, is ignored by the script too.
        if handler is not signals.SIG_IGN:
            signals.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            # It is None if it was not set from Python.
            signals.signal(number, signals.SIG_DFL if handler is None else handler)


def _increase(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _fresh_dump(folder: Path) -> Path | None:
    """Return the last dump of the allocator's blocks if it was written shortly before now."""
    dumps = sorted(folder.glob("heap_*"), key=lambda path: path.stat().st_mtime)
    return dumps[-1] if dumps and time.time() - dumps[-1].stat().st_mtime < _FRESH_SECONDS else None


def describe_end(ending: Ending, events: list[Event], cause: str) -> str:
    """Return how an attempt ended, in words."""
    number = stop_signal(ending)
    if cause == INTERRUPTED and number is not None:
        return f"by {signal_name(number)}"
    if cause == INTERRUPTED:
        return "the script ended itself in the middle of a training"
    if cause == KILLED and ending.signal is not None:
        # Not by the kernel for its memory, which may have killed another program meanwhile.
        return f"the process was killed by {signal_name(ending.signal)}"
    if cause == RESTART:
        return "the process asked to be started again"
    failed = next((event for event in reversed(events) if isinstance(event, Failed)), None)
    if failed is None or ending.signal is not None:
        return ending.words
    message = failed.message.strip().splitlines()
    return f"{failed.error}: {message[0]}" if message else failed.error


def _explanation(shortages: tuple[Shortage, ...]) -> tuple[str, ...]:
    """Return the cause of the last shortage as a sentence, and what to do about it."""
    return () if not shortages else (shortages[-1].cause.sentence, *shortages[-1].cause.advice)
