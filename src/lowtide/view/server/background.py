"""Jobs for the worker process (`lowtide.view.server.worker`), run one at a time, urgent ones first."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lowtide

Message = dict[str, Any]
MessageCallback = Callable[[Message], None]
"""Called with each line of the answer; the last has "done" or "error", and "retry" if trying again may help."""

# The process ends after this time without a job, and frees its memory.
_IDLE_SECONDS = 2.0


@dataclass(frozen=True)
class _WorkerJob:
    request: Message
    receive: MessageCallback


class Background:
    """One thread that hands jobs to one process; both exist only while there are jobs."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._urgent: deque[_WorkerJob] = deque()
        self._later: deque[_WorkerJob] = deque()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[str] | None = None
        self._is_closed = False

    def inspect(self, path: Path, receive: MessageCallback) -> None:
        """Queue a file whose contents are to be found."""
        self._add(self._later, _WorkerJob({"inspect": str(path)}, receive))

    def prioritize(self, path: Path) -> None:
        """Move a file that is still in the queue to its front."""
        with self._changed:
            for job in [job for job in self._later if job.request == {"inspect": str(path)}]:
                self._later.remove(job)
                self._urgent.appendleft(job)

    def build(self, given: list[Any], receive: MessageCallback) -> None:
        """Queue an index to be built, before all files that wait to be read: a user waits for it."""
        self._add(self._urgent, _WorkerJob({"build": given}, receive))

    def close(self) -> None:
        """End the process even while it works; jobs in the queue are dropped."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread, process = self._thread, self._process
        if process is not None:
            process.terminate()
        if thread is not None:
            thread.join()

    def _add(self, jobs: deque[_WorkerJob], job: _WorkerJob) -> None:
        with self._changed:
            jobs.append(job)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._work, name="lowtide-background", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._urgent or self._later, _IDLE_SECONDS)
                jobs = self._urgent or self._later
                if self._is_closed or not jobs:
                    # A job that arrives from here on starts a new thread and a new process.
                    self._thread, process, self._process = None, self._process, None
                    break
                job = jobs.popleft()
            self._do(job)
        _end(process)

    def _do(self, job: _WorkerJob) -> None:
        # A broken pipe, a truncated answer and an answer without an end all mean that the process has died.
        with contextlib.suppress(OSError, ValueError):
            for message in _answers(self._started(), job.request):
                job.receive(message)
                if "done" in message or "error" in message:
                    return
        with self._changed:
            process, self._process = self._process, None
        _end(process)
        if not self._is_closed:
            cure = "check whether memory ran out, then reload the page"
            job.receive({"error": "the process that reads files has died", "cure": cure, "retry": True})

    def _started(self) -> subprocess.Popen[str]:
        with self._changed:
            if self._is_closed:
                raise OSError("closed")
            if self._process is None:
                self._process = _start_process()
            return self._process


def _answers(process: subprocess.Popen[str], request: Message) -> Iterator[Message]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        yield json.loads(line)


def _end(process: subprocess.Popen[str] | None) -> None:
    if process is None:
        return
    process.terminate()
    for pipe in (process.stdin, process.stdout):
        # Closing flushes to a process that may be gone.
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()
    process.wait()


def _start_process() -> subprocess.Popen[str]:
    home = str(Path(lowtide.__file__).parent.parent)
    paths = [home, os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else [home]
    return subprocess.Popen(
        # -P: nothing is imported from the current folder, which may be the one that is viewed.
        [sys.executable, "-P", "-m", "lowtide.view.server.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        # Ctrl-C goes to the server, which then ends this process.
        start_new_session=True,
    )
