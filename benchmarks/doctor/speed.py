"""A thousand files in one command, beside tools that also know what names refer to."""

from __future__ import annotations

import hashlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.processes import ROOT
from benchmarks.common.report import Bar, Section
from benchmarks.doctor.real import EVERYTHING, repositories

FILES = 1_000
MOST_SECONDS = 20
_WORDS = re.compile(r"tensorflow|keras")
_REPETITIONS = 3


def choose_files(folder: Path) -> list[Path]:
    """A thousand files that mention TensorFlow or Keras, from all repositories, always the same ones."""
    found = [
        (hashlib.sha256(f"{name}/{path.relative_to(root)}".encode()).hexdigest(), path)
        for name, root in repositories(folder).items()
        for pattern in EVERYTHING
        for path in root.glob(pattern)
        if path.is_file() and _WORDS.search(path.read_text(encoding="utf-8", errors="replace"))
    ]
    return [path for _, path in sorted(found)[:FILES]]


def measure_speed(folder: Path, peers: Path | None) -> Section:
    """The command on a folder of a thousand files; peers are asked for the same files, Python files only."""
    chosen = choose_files(folder)
    with tempfile.TemporaryDirectory() as name:
        copies = Path(name) / "all"
        copies.mkdir()
        for number, path in enumerate(chosen):
            shutil.copy(path, copies / f"{number:04}{path.suffix}")
        lines = sum(len(path.read_bytes().splitlines()) for path in copies.glob("*.py"))
        seconds = [_time([sys.executable, "-m", "lowtide", "doctor", str(copies)]) for _ in range(_REPETITIONS)]
        median = statistics.median(seconds)
        notebooks = len(list(copies.glob("*.ipynb")))
        cells = [["lowtide doctor", str(len(chosen)), f"{median:.1f}", "all rules"]]
        for notebook in copies.glob("*.ipynb"):
            notebook.unlink()
        python = len(chosen) - notebooks
        alone = _time([sys.executable, "-m", "lowtide", "doctor", str(copies)])
        cells.append(["lowtide doctor, Python files only", str(python), f"{alone:.1f}", "all rules"])
        cells += _peers(copies, python, peers)
    words = f"{FILES:,} files in at most {MOST_SECONDS} s on two cores"
    seen = f"{median:.1f} s for {len(chosen):,} files"
    bars = [Bar(words, seen, len(chosen) >= FILES and median <= MOST_SECONDS)]
    notes = [f"{len(chosen):,} files: {notebooks} notebooks, and Python files of {lines:,} lines together."]
    return Section("Speed", ("tool", "files", "seconds", "what it did"), cells, bars, notes)


def _peers(folder: Path, files: int, peers: Path | None) -> Sequence[list[str]]:
    """Tools of an environment of their own; those that it does not have are left out."""
    found = []
    commands = {
        "LibCST": ("python", ["-m", "benchmarks.doctor.children.libcst_names", str(folder)], "qualified names only"),
        "TorchFix": ("torchfix", ["--select", "ALL", str(folder)], "all rules, for PyTorch"),
        "pylint": ("pylint", ["-j2", "--disable=all", "--enable=E", str(folder)], "errors only"),
    }
    for name, (program, arguments, what) in commands.items():
        path = None if peers is None else peers / "bin" / program
        if path is not None and path.exists():
            found.append([name, str(files), f"{_time([str(path), *arguments]):.1f}", what])
    return found


def _time(command: list[str]) -> float:
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PATH": "/usr/bin:/bin"}
    began = time.perf_counter()
    subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False)
    return time.perf_counter() - began
