"""How long an index takes, what the process that builds it holds, and what it takes on the disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common.processes import ROOT
from benchmarks.explore.memory import own_bytes
from benchmarks.explore.servers import environment

Measured = dict[str, Any]

_SECONDS = 1800.0
_BETWEEN_LOOKS = 0.02


def measure_index(path: Path, cache: Path, repetitions: int) -> Measured:
    """Build the index several times from nothing; the last one is left for the page."""
    runs = []
    for _ in range(repetitions):
        shutil.rmtree(cache, ignore_errors=True)
        runs.append(_build(path, cache))
        if "failed" in runs[-1]:
            return {"failed": runs[-1]["failed"]}
    return {"runs": runs}


def _build(path: Path, cache: Path) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder) / "result.json", Path(folder) / "errors"
        command = [sys.executable, "-m", "benchmarks.explore.index_child", str(path), "--output", str(output)]
        with errors.open("w") as said:
            process = subprocess.Popen(command, env=environment(cache), cwd=ROOT, stderr=said)
        highest = 0
        end = time.monotonic() + _SECONDS
        try:
            while process.poll() is None and time.monotonic() < end:
                highest = max(highest, own_bytes(process.pid))
                time.sleep(_BETWEEN_LOOKS)
        finally:
            process.kill()
            process.wait()
        if not output.exists():
            lines = errors.read_text().strip().splitlines() or [f"no answer within {_SECONDS:.0f} s"]
            return {"failed": lines[-1][:300]}
        return {**json.loads(output.read_text()), "own_bytes": highest}
