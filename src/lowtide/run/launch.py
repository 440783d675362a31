"""Runs a script as `python script.py` does, with an allocator that can be recorded and limited."""

from __future__ import annotations

import os
import select
import signal as signals
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import lowtide.run.startup
from lowtide.errors import LowtideError
from lowtide.run.dump_filter import DumpFilter
from lowtide.run.machine import count_kills, machine_bytes, start_child
from lowtide.run.output_channel import OutputChannel
from lowtide.run.output_log import OutputLog
from lowtide.run.signals import SignalRelay
from lowtide.run.startup.sitecustomize import LOG_LEVEL, NOTE, WARNING

STDOUT, STDERR = 1, 2
# How long an incomplete line that may belong to the allocator's dump is held back.
_PATIENCE_SECONDS = 0.05
_HOUSEKEEPING_SECONDS = 1.0
_KEPT_HEAPS = 32
# The severities from warnings on that a script can silence.
_SEVERITIES = b"WE"


@dataclass(frozen=True)
class Script:
    """A script with its arguments: a file, a folder or a zip archive that Python can run, or a module."""

    target: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    @property
    def file(self) -> Path | None:
        """The file with the code that Python runs; None if it is no file in the working directory or by its path."""
        path = Path(*self.target.split(".")) if self.is_module else Path(self.target)
        candidates = [path.with_name(f"{path.name}.py")] if self.is_module else [path]
        return next((each for each in [*candidates, path / "__main__.py"] if each.is_file()), None)

    @property
    def command(self) -> list[str]:
        """The command line after the interpreter and its options."""
        return [*(["-m"] if self.is_module else []), self.target, *self.arguments]


@dataclass(frozen=True)
class Ending:
    """How a script ended, and where its log is."""

    exit_code: int
    """As `subprocess` returns it: negative for a signal."""
    signal: int | None
    seconds: float
    log: Path
    kills: int | None = None
    """The number of processes that the system's out-of-memory killer ended meanwhile; None if it is not known."""
    stopped_by: int | None = None
    """The last signal to stop that this process received meanwhile and the script got too."""

    @property
    def as_exit_code(self) -> int:
        """The exit code of a shell: 128 plus the number of the signal, if one ended the script."""
        return self.exit_code if self.signal is None else 128 + self.signal

    @property
    def words(self) -> str:
        """A sentence that says how the script ended."""
        if self.signal is None:
            return "the script ended well" if self.exit_code == 0 else f"the script ended with code {self.exit_code}"
        line = f"the process was killed by {signal_name(self.signal)}"
        if self.signal != signals.SIGKILL or self.kills == 0:
            return line
        return f"{line}: the system's own out-of-memory killer, {'most likely' if self.kills is None else 'it seems'}"


def launch(
    script: Script,
    folder: Path,
    *,
    limit_bytes: int | None,
    steps: int,
    recorder: str | None = None,
    stdout_to_stderr: bool = False,
    variables: Mapping[str, str] | None = None,
    working_folder: Path | None = None,
) -> Ending:
    """Run a script to its end and show what it prints; its log and the recording are written into `folder`.

    `recorder` names a module that the script's process imports after TensorFlow; it has the functions `limit_gpus`,
    `begin` and `end`. The allocator writes `folder/heap_NAME.MICROSECONDS` each time that a request fails.
    `variables` are added to the environment of the script.
    """
    surroundings = child_environment(folder, limit_bytes, steps, {**os.environ, **(variables or {})}, recorder)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    log = OutputLog(folder / "log")
    before, started = count_kills(), time.monotonic()
    with OutputChannel(STDERR) as channel, SignalRelay(channel.copy_size) as relay:
        # If both are the same file they share one channel, so that their order is kept.
        together = stdout_to_stderr or is_output_together()
        process = start_child(
            [sys.executable, *interpreter_options(sys.orig_argv), *script.command],
            stdout=channel.writer if together else None,
            stderr=channel.writer,
            env=surroundings,
            cwd=working_folder,
            # Descriptors from the shell stay open for the script; those opened by this process are not inheritable.
            close_fds=False,
        )
        relay.begin(process)
        channel.close_writer()
        try:
            _forward_output(process, channel, log, folder)
        finally:
            # The script has ended unless an error occurred here; then it must not run on unattended.
            process.kill()
            log.close()
    code, after = process.wait(), count_kills()
    kills = None if before is None or after is None else after - before
    return Ending(code, -code if code < 0 else None, time.monotonic() - started, log.path, kills, relay.stopped_by)


def child_environment(
    folder: Path, limit_bytes: int | None, steps: int, environment: Mapping[str, str], recorder: str | None = None
) -> dict[str, str]:
    """Return the environment with the variables that limit and record the allocator of the child."""
    added = {
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_BFC_MEMORY_DUMP": str(folder.absolute() / "heap"),
        NOTE: f"{recorder or ''}:{steps}:{'' if limit_bytes is None else limit_bytes}:{folder.absolute()}",
    }
    limit = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
    if limit_bytes is not None:
        if limit_bytes < 1 << 20:
            raise LowtideError(
                "the allocator takes its limit in whole MiB", given=limit_bytes, cure="give 1MiB or more"
            )
        added[limit] = str(limit_bytes >> 20)
    elif limit not in environment:
        # TensorFlow's default of 64 GiB is less than some machines have, and more than others.
        added[limit] = str(machine_bytes() >> 20)
    first = str(Path(lowtide.run.startup.__file__).parent)
    path = environment.get("PYTHONPATH")
    added["PYTHONPATH"] = f"{first}{os.pathsep}{path}" if path else first
    return {**environment, **added}


def interpreter_options(command: list[str]) -> list[str]:
    """Return the options of this interpreter's command line that the script's interpreter gets too.

    Options that change the module search path (-I, -E, -s, -S, -P) apply to lowtide only.
    """
    options: list[str] = []
    words = iter(command[1:])
    for word in words:
        if word == "--check-hash-based-pycs":
            options += [word, next(words, "default")]
            continue
        if len(word) < 2 or word[0] != "-" or word[1] == "-":
            break
        for position, letter in enumerate(word[1:], start=2):
            if letter in "cm":
                return options
            if letter in "WX":
                options += [f"-{letter}", word[position:] or next(words, "")]
                break
            if letter not in "IEsSPi":
                options.append(f"-{letter}")
    return options


def is_output_together() -> bool:
    """Whether standard output and standard error of this process are the same file."""
    try:
        return os.path.sameopenfile(STDOUT, STDERR)
    except OSError:
        # One of them is closed.
        return False


def _forward_output(process: subprocess.Popen[bytes], channel: OutputChannel, log: OutputLog, folder: Path) -> None:
    """Write what the script prints to the log and to standard error until it has ended."""
    dump_filter, stderr = DumpFilter(), _StandardError()

    def take(data: bytes) -> None:
        log.write(data)
        # The script may set the level at any time before it imports TensorFlow.
        dump_filter.silenced = dump_filter.silenced or _read_silenced(folder)
        stderr.show(dump_filter.filter(data))

    ended, end = os.pipe()

    def wait() -> None:
        process.wait()
        os.close(end)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    sources, tidied = [channel.reader, ended], time.monotonic()
    while True:
        ready, _, _ = select.select(
            sources, [], [], _PATIENCE_SECONDS if dump_filter.is_waiting else _HOUSEKEEPING_SECONDS
        )
        if ended in ready:
            break
        if not ready:
            stderr.show(dump_filter.release())
        elif data := channel.read():
            take(data)
        else:
            sources.remove(channel.reader)
        if time.monotonic() - tidied > _HOUSEKEEPING_SECONDS:
            _delete_old_heaps(folder)
            tidied = time.monotonic()
    waiter.join()
    os.close(ended)
    if channel.reader in sources:
        channel.read_leftover(take)
    stderr.show(dump_filter.release())
    _delete_old_heaps(folder)


def _read_silenced(folder: Path) -> bytes:
    """Return the severities that the script has silenced; none before it imports TensorFlow."""
    try:
        level = int((folder / LOG_LEVEL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return b""
    return _SEVERITIES[: level - WARNING]


class _StandardError:
    """Standard error of this process, until its reader is gone."""

    def __init__(self) -> None:
        self._is_read = True

    def show(self, data: bytes) -> None:
        """Write all the data, unless the reader is gone."""
        while data and self._is_read:
            try:
                data = data[os.write(STDERR, data) :]
            except BlockingIOError:
                select.select([], [STDERR], [])
            except OSError:
                # The script runs on, and its log is complete.
                self._is_read = False


def _delete_old_heaps(folder: Path) -> None:
    """Delete all but the latest heaps: near its limit the allocator writes one each time an op has to wait."""
    heaps = sorted(folder.glob("heap_*"), key=lambda path: path.suffix)
    for path in heaps[:-_KEPT_HEAPS]:
        path.unlink(missing_ok=True)


def signal_name(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
