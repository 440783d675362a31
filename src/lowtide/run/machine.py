"""The memory of this machine, and what its kernel does with processes."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def machine_bytes() -> int:
    """Return the memory of this machine plus its swap space, which no process can exceed."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") + 1024 * (
        _number("/proc/meminfo", "SwapTotal:") or 0
    )


def count_kills() -> int | None:
    """Return how many processes the out-of-memory killer ended since the system started; None if not known."""
    return _number("/proc/vmstat", "oom_kill")


def _number(path: str, name: str) -> int | None:
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), None)


def end_with_parent() -> Callable[[], None] | None:
    """Return a function for `preexec_fn` that ends the child when this process is killed; None if not supported."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
