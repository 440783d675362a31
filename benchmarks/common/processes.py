"""Child processes: their environment, their time limit, and how they ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MEBIBYTE = 2**20
# Far above every configuration: a limit that is never felt.
AMPLE_BYTES = 20 * 2**30
# A step that does not fit may end in a crash inside a kernel instead of an error.
CRASH_SIGNALS = {-6: "SIGABRT", -11: "SIGSEGV"}


def allocator_environment(limit_bytes: int) -> dict[str, str]:
    """Settings that make the CPU use TensorFlow's BFC allocator with a hard limit."""
    return {
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(-(-limit_bytes // MEBIBYTE)),
    }


def run_module(
    module: str, arguments: list[str], environment: dict[str, str], timeout_seconds: float
) -> dict[str, Any]:
    """Runs `python -m module ... --output FILE`; what it wrote, or how it failed instead."""
    everything = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "KERAS_BACKEND": "tensorflow",
        # The child sees the repository and its package, installed or not.
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
        **environment,
    }
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        command = [sys.executable, "-m", module, *arguments, "--output", str(output)]
        started = time.perf_counter()
        try:
            ended = subprocess.run(
                command, env=everything, cwd=ROOT, timeout=timeout_seconds,
                capture_output=True, text=True, errors="replace", check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"failed": f"no answer within {timeout_seconds:.0f} s"}
        elapsed = {"process_seconds": round(time.perf_counter() - started, 2)}
        if ended.returncode in CRASH_SIGNALS:
            # A child may have written down how far it came.
            written = json.loads(output.read_text()) if output.exists() else {}
            return {**written, "crashed": CRASH_SIGNALS[ended.returncode], **elapsed}
        if ended.returncode != 0 or not output.exists():
            lines = ended.stderr.strip().splitlines() or ["no message"]
            return {"failed": f"exit code {ended.returncode}: {lines[-1][:300]}", **elapsed}
        return {**json.loads(output.read_text()), **elapsed}
