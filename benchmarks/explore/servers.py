"""The servers that a page comes from, on a free port of this machine; ended with everything that they started."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from benchmarks.common.processes import ROOT
from benchmarks.explore.memory import family, resident_bytes, shared_out_bytes

_START_SECONDS = 120.0
_END_SECONDS = 10.0


@dataclass(frozen=True)
class PageServer:
    """A server that answers."""

    address: str
    process: int
    start_seconds: float

    @property
    def bytes(self) -> int:
        """What it holds with all that it started, as PSS."""
        return shared_out_bytes(family(self.process))

    @property
    def resident_bytes(self) -> int:
        return resident_bytes(family(self.process))

    def ask(self, path: str, /, **parameters: Any) -> Any:
        """An answer of its API."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        with urlopen(f"{self.address}{path}{query}", timeout=_START_SECONDS) as response:
            content = response.read()
        try:
            return json.loads(content)
        except ValueError:
            raise RuntimeError(f"{path}{query} gave {response.status} and no JSON: {content[:100]!r}") from None


def environment(cache: Path | None = None) -> dict[str, str]:
    """Children see this repository's package, installed or not, and keep indexes apart from the user's."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    found = {**os.environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    return found if cache is None else {**found, "LOWTIDE_CACHE": str(cache)}


@contextlib.contextmanager
def lowtide_view(path: Path, cache: Path) -> Iterator[PageServer]:
    """`lowtide view PATH`."""
    command = [sys.executable, "-m", "lowtide", "view", str(path), "--port", "0", "--json"]
    with _running(command, environment(cache), r'"address": "(http://[^"]+)"') as server:
        yield server


@contextlib.contextmanager
def tensorboard(folder: Path) -> Iterator[PageServer]:
    """`tensorboard --logdir FOLDER`, once it has read the graph: the page has nothing to wait for."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--host", "127.0.0.1", "--port", "0"]
    with _running(command, environment(), r"(http://127\.0\.0\.1:\d+/)") as server:
        end = time.monotonic() + _START_SECONDS
        while not server.ask("data/plugin/graphs/info") and time.monotonic() < end:
            time.sleep(0.25)
        yield server


@contextlib.contextmanager
def _running(command: list[str], surroundings: dict[str, str], address: str) -> Iterator[PageServer]:
    start = time.perf_counter()
    process = subprocess.Popen(
        command, env=surroundings, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        found = _wait_for_address(process, address)
        yield PageServer(found, process.pid, time.perf_counter() - start)
    finally:
        _end(process)


def _wait_for_address(process: subprocess.Popen[str], address: str) -> str:
    assert process.stdout is not None
    said: list[str] = []
    timer = threading.Timer(_START_SECONDS, process.terminate)
    timer.start()
    try:
        for line in process.stdout:
            said.append(line.strip())
            if match := re.search(address, line):
                # What it says from here on is of no interest, but must not fill the pipe.
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return match[1]
    finally:
        timer.cancel()
    raise RuntimeError(f"the server did not start: {' '.join(said)[-300:]}")


def _end(process: subprocess.Popen[str]) -> None:
    """Politely, then not; the session is the server's own, so nothing else is in it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
