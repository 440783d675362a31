"""Runs of scripts under `lowtide train` and beside it, in folders of their own; each measurement is kept."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.cache import CachedRuns, Measured, digest
from benchmarks.common.processes import ROOT

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
# What a training under `lowtide train` depends on.
_ROOMS = ("run/train", "tf/train")
# Of a measurement, in the terminal.
_SHOWN = ("equal_weights", "once_per_epoch", "repeated", "codes", "attempts", "seconds", "unfinished")


class TrainRuns(CachedRuns):
    """Measurements of one part of this benchmark, which all run the same script."""

    def __init__(self, options: argparse.Namespace, script: Path) -> None:
        rooms = [ROOT / "src" / "lowtide" / room for room in _ROOMS]
        super().__init__(options, digest(script), digest(script, *rooms))

    def describe(self, result: Measured) -> str:
        if "failed" in result:
            return f"failed: {result['failed']}"
        return " ".join(f"{name}={result[name]}" for name in _SHOWN if name in result) or "measured"


@dataclass(frozen=True)
class Ended:
    """A process that has ended."""

    code: int
    """Negative if a signal ended it."""
    stderr: str
    seconds: float
    processor_seconds: float
    """Those of the process and of all that it started."""

    @property
    def last_line(self) -> str:
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        return lines[-1][:300] if lines else "no message"


def run(command: list[str], folder: Path, timeout_seconds: float = 300.0, **variables: str) -> Ended:
    """Run Python with these arguments."""
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "KERAS_BACKEND": "tensorflow",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
        **variables,
    }
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    log = folder / "stderr.txt"
    with log.open("wb") as stderr:
        try:
            code = subprocess.run(
                [sys.executable, *command], env=environment, cwd=folder, timeout=timeout_seconds,
                stdout=subprocess.DEVNULL, stderr=stderr, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = -1
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Ended(
        code,
        log.read_text(errors="replace"),
        time.perf_counter() - started,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )


@contextmanager
def folder_for_runs() -> Iterator[Path]:
    """Yield a new folder, which is removed again."""
    folder = Path(tempfile.mkdtemp(prefix="lowtide-train-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def lowtide(*arguments: str) -> list[str]:
    """Return the arguments that run `lowtide train`."""
    return ["-m", "lowtide", "train", *arguments]
