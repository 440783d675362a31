"""Child processes of tests: Python with lowtide on its path, and TensorFlow's real allocator where a limit is given."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import lowtide

SOURCE = Path(lowtide.__file__).parents[1]
TIMEOUT_SECONDS = 600


class Run(NamedTuple):
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str


def command_environment(**more: str) -> dict[str, str]:
    """The environment of a command as a person has it, without the settings of the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "utf-8", **more}


def child_environment(limit_mib: int | None = None, **settings: str) -> dict[str, str]:
    """This process's environment for a child; with a limit its CPU device uses the BFC allocator."""
    limited = {} if limit_mib is None else allocator_settings(limit_mib)
    shared = {"PYTHONPATH": str(SOURCE), "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    return {**os.environ, **shared, **limited, **settings}


def allocator_settings(limit_mib: int) -> dict[str, str]:
    return {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(limit_mib)}


def run_python(
    *arguments: object, limit_mib: int | None = None, ends_well: bool = True, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run `python *arguments` to its end; unless `ends_well` is false, it must exit with 0."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=child_environment(limit_mib, **settings),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert not ends_well or done.returncode == 0, done.stderr[-4000:]
    return done


def heed_interrupts() -> None:
    """Let a new child heed SIGINT, which children of a shell's background jobs ignore; for `preexec_fn`."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def last_json(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON in the last line that a child printed."""
    return json.loads(done.stdout.splitlines()[-1])
