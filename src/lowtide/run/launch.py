"""Running a script as `python script.py` runs it, with the allocator that can be recorded and limited."""

from __future__ import annotations

import os
import select
import signal as signals
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import lowtide.run.startup
from lowtide.errors import LowtideError
from lowtide.run.dump_filter import Sieve
from lowtide.run.machine import count_kills, end_with_parent, machine_bytes
from lowtide.run.output_channel import Channel
from lowtide.run.output_log import Log
from lowtide.run.signals import Relay
from lowtide.run.startup.sitecustomize import NOTE

STDOUT, STDERR = 1, 2
# How long the beginning of what may be a line of the allocator's dump waits for its end.
_PATIENCE_SECONDS = 0.05
_HOUSEKEEPING_SECONDS = 1.0
_KEPT_HEAPS = 32


@dataclass(frozen=True)
class Script:
    """What is run: a file, a folder or a zip as Python runs them, or a module, and its arguments."""

    target: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    @property
    def command(self) -> list[str]:
        """The words after the interpreter and its options."""
        return [*(["-m"] if self.is_module else []), self.target, *self.arguments]


@dataclass(frozen=True)
class Ending:
    """How a script ended, and where its log is."""

    exit_code: int
    """As Python's subprocess gives it: negative for a signal."""
    signal: int | None
    seconds: float
    log: Path
    kills: int | None = None
    """How many processes the system killed for want of memory meanwhile; None where it does not say."""

    @property
    def as_exit_code(self) -> int:
        """The code that a shell would give: 128 and the number of the signal, if one ended it."""
        return self.exit_code if self.signal is None else 128 + self.signal

    @property
    def words(self) -> str:
        """How it ended, in words."""
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
    environment: Mapping[str, str] | None = None,
    stdout_to_stderr: bool = False,
) -> Ending:
    """Run a script to its end, show what it prints, and leave in `folder` what was recorded of it, and its log.

    The allocator's heaps are in `folder/heap_NAME.MICROSECONDS`, one for each time that it had nothing to give.
    """
    surroundings = child_environment(folder, limit_bytes, steps, os.environ if environment is None else environment)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    log = Log(folder / "log")
    before, started = count_kills(), time.monotonic()
    with Channel(STDERR) as channel, Relay(channel.copy_size) as relay:
        # Where both are one file already they share the way, or what is written to both would lose its order.
        together = stdout_to_stderr or _are_one_file(STDOUT, STDERR)
        process = _start(script, surroundings, channel.writer if together else None, channel.writer)
        relay.begin(process)
        channel.close_writer()
        try:
            _attend(process, channel, log, lambda: _tidy(folder))
        finally:
            # It has ended, unless something here went wrong; then nobody would look after it.
            process.kill()
            log.close()
    code, after = process.wait(), count_kills()
    kills = None if before is None or after is None else after - before
    return Ending(code, -code if code < 0 else None, time.monotonic() - started, log.path, kills)


def child_environment(
    folder: Path, limit_bytes: int | None, steps: int, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables under which the child's allocator has a limit and a record, and the script its own."""
    added = {
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_BFC_MEMORY_DUMP": str(folder.absolute() / "heap"),
        NOTE: f"{steps}:{'' if limit_bytes is None else limit_bytes}:{folder.absolute()}",
    }
    limit = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
    if limit_bytes is not None:
        if limit_bytes < 1 << 20:
            raise LowtideError(
                "the allocator takes its limit in whole MiB", given=limit_bytes, cure="give 1MiB or more"
            )
        added[limit] = str(limit_bytes >> 20)
    elif limit not in environment:
        # Its own default is 64 GiB, which is less than some machines have, and more than others could give.
        added[limit] = str(machine_bytes() >> 20)
    first = str(Path(lowtide.run.startup.__file__).parent)
    path = environment.get("PYTHONPATH")
    added["PYTHONPATH"] = f"{first}{os.pathsep}{path}" if path else first
    return {**environment, **added}


def interpreter_options(command: list[str]) -> list[str]:
    """Return the options of an interpreter's own command line that are meant for the script as well.

    Those that say where modules are looked for (-I, -E, -s, -S, -P) are about lowtide, and stay with it.
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


def _start(
    script: Script, environment: dict[str, str], stdout: int | None, stderr: int | None
) -> subprocess.Popen[bytes]:
    with warnings.catch_warnings():
        # Python advises against a preexec_fn where there are threads; this one takes no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        return subprocess.Popen(
            [sys.executable, *interpreter_options(sys.orig_argv), *script.command],
            stdout=stdout,
            stderr=stderr,
            env=environment,
            # What a shell handed down stays open for the script; what this process opened is not inheritable.
            close_fds=False,
            preexec_fn=end_with_parent(),
        )


def _are_one_file(one: int, other: int) -> bool:
    try:
        return os.path.sameopenfile(one, other)
    except OSError:
        # One of them is closed.
        return False


def _attend(process: subprocess.Popen[bytes], channel: Channel, log: Log, housekeeping: Callable[[], None]) -> None:
    """Pass on what the script prints until it has ended."""
    sieve, screen = Sieve(), _Screen()

    def take(data: bytes) -> None:
        log.write(data)
        screen.show(sieve.pass_on(data))

    ended, end = os.pipe()

    def wait() -> None:
        process.wait()
        os.close(end)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    sources, tidied = [channel.reader, ended], time.monotonic()
    while True:
        ready, _, _ = select.select(sources, [], [], _PATIENCE_SECONDS if sieve.is_waiting else _HOUSEKEEPING_SECONDS)
        if ended in ready:
            break
        if not ready:
            screen.show(sieve.release())
        elif data := channel.read():
            take(data)
        else:
            sources.remove(channel.reader)
        if time.monotonic() - tidied > _HOUSEKEEPING_SECONDS:
            housekeeping()
            tidied = time.monotonic()
    waiter.join()
    os.close(ended)
    if channel.reader in sources:
        channel.read_leftover(take)
    screen.show(sieve.release())
    housekeeping()


class _Screen:
    """Our own standard error, as long as there is somebody who reads it."""

    def __init__(self) -> None:
        self._is_read = True

    def show(self, data: bytes) -> None:
        while data and self._is_read:
            try:
                data = data[os.write(STDERR, data) :]
            except BlockingIOError:
                select.select([], [STDERR], [])
            except OSError:
                # The script runs on; its log has everything.
                self._is_read = False


def _tidy(folder: Path) -> None:
    """Keep the latest heaps: near its limit the allocator writes one each time that an op has to wait."""
    heaps = sorted(folder.glob("heap_*"), key=lambda path: path.suffix)
    for path in heaps[:-_KEPT_HEAPS]:
        path.unlink(missing_ok=True)


def signal_name(number: int) -> str:
    """Return what the system calls a signal."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
