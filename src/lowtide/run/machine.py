"""The memory of this machine, and what its kernel does with processes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1


def machine_bytes() -> int:
    """Return the memory of this machine plus its swap space, which no process can exceed."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") + 1024 * (
        _number("/proc/meminfo", "SwapTotal:") or 0
    )


def count_kills() -> int | None:
    """Return how many processes the out-of-memory killer ended since the system started; None if not known."""
    return _number("/proc/vmstat", "oom_kill")


def resident_bytes() -> int | None:
    """Return the resident memory of this process; None if the system does not report it."""
    return _kib_of_process("VmRSS:")


def peak_resident_bytes() -> int | None:
    """Return the highest resident memory of this process; None if the system does not report it."""
    return _kib_of_process("VmHWM:")


def _kib_of_process(name: str) -> int | None:
    kib = _number("/proc/self/status", name)
    return None if kib is None else kib << 10


def _number(path: str, name: str) -> int | None:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), None)


def start_child(command: Sequence[str | Path], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that the system ends when this process is killed, if it supports that; see `subprocess.Popen`."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return subprocess.Popen(command, **options)
    with warnings.catch_warnings():
        # Python warns about preexec_fn in a process with threads; this one takes no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        end = (_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        return subprocess.Popen(command, preexec_fn=lambda: prctl(*end), **options)
