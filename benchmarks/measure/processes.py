"""The child processes: a program as Python runs it, and as `lowtide run` runs it, with the same allocator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.processes import ROOT, allocator_environment

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_SECONDS = 420.0


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it printed."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def way(self) -> str:
        """In a word: "well", an exit code, or the name of a signal."""
        if self.code == 0:
            return "well"
        # lowtide passes a signal on as a shell does.
        number = -self.code if self.code < 0 else self.code - 128
        if number > 0:
            try:
                return signal.Signals(number).name
            except ValueError:
                pass
        return f"code {self.code}"

    @property
    def last_line(self) -> str:
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        return lines[-1][:300] if lines else "no message"


class Failed(Exception):
    """A case that gave no answer; the benchmark goes on with the next."""


def environment_with(limit_bytes: int, onednn: bool | None) -> dict[str, str]:
    """The caller's environment with the BFC allocator, its limit, and every message of TensorFlow's."""
    surroundings = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    surroundings |= {
        **allocator_environment(limit_bytes),
        "KERAS_BACKEND": "tensorflow",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
    }
    if onednn is not None:
        surroundings["TF_ENABLE_ONEDNN_OPTS"] = "1" if onednn else "0"
    return surroundings


def run_plain(program: str, arguments: list[str], limit_bytes: int, onednn: bool | None = None) -> Ended:
    """`python program.py ...`, as its author runs it."""
    return _run([sys.executable, str(PROGRAMS / f"{program}.py"), *arguments], limit_bytes, onednn)


def run_recorded(
    program: str, arguments: list[str], limit_bytes: int, onednn: bool | None = None
) -> tuple[Ended, dict[str, Any]]:
    """`lowtide run --json program.py ...`, and what it said."""
    words = ["-m", "lowtide", "run", "--json", "--limit", str(limit_bytes), str(PROGRAMS / f"{program}.py")]
    ended = _run([sys.executable, *words, *arguments], limit_bytes, onednn)
    try:
        return ended, json.loads(ended.stdout)
    except ValueError:
        raise Failed(f"lowtide run gave no JSON; it ended with {ended.way}: {ended.last_line}") from None


def _run(command: list[str], limit_bytes: int, onednn: bool | None) -> Ended:
    started = time.perf_counter()
    try:
        ended = subprocess.run(
            command, env=environment_with(limit_bytes, onednn), timeout=TIMEOUT_SECONDS,
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failed(f"no answer within {TIMEOUT_SECONDS:.0f} s") from None
    return Ended(ended.returncode, ended.stdout, ended.stderr, time.perf_counter() - started)
