"""The memory of this machine, and what its kernel does with processes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60


def machine_bytes() -> int:
    """Return the memory of this machine plus its swap space, which no process can exceed."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") + 1024 * (
        _number("/proc/meminfo", "SwapTotal:") or 0
    )


def group_bytes(root: Path = _CONTROL_GROUPS, membership: str | None = None) -> int | None:
    """Return the lowest memory limit of this process's control groups, such as a container's; None without one."""
    limits = []
    for group in _memory_groups(root, membership):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read_text(group / name).strip()
            # "max" is no limit, and version 1 shows a number near 2 ** 63.
            if text.isdigit() and int(text) < _NO_LIMIT:
                limits.append(int(text))
    return min(limits, default=None)


def available_bytes(
    root: Path = _CONTROL_GROUPS, membership: str | None = None, memory: str | Path = "/proc/meminfo"
) -> int | None:
    """Return what processes can still take of this machine and of this process's control groups, without swapping.

    `memory` is the kernel's file about the machine's memory. None if the system does not report it.
    """
    free = _number(memory, "MemAvailable:")
    if free is None:
        return None
    return min([free << 10, *(left for group in _memory_groups(root, membership) for left in _left_in_group(group))])


def _left_in_group(group: Path) -> Iterator[int]:
    """Yield what a control group has left, in either version; nothing if it has no limit."""
    versions = (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    )
    for limit, usage, cache in versions:
        most, used = (_read_text(group / name).strip() for name in (limit, usage))
        if most.isdigit() and used.isdigit():
            # The kernel gives up pages of files that were not used lately.
            yield int(most) - int(used) + (_number(group / "memory.stat", cache) or 0)


def count_group_kills(root: Path = _CONTROL_GROUPS, membership: str | None = None) -> int | None:
    """Return how many processes of this process's control group the kernel has killed; None if not known."""
    for group in _memory_groups(root, membership):
        for name in ("memory.events", "memory.oom_control"):
            count = _number(group / name, "oom_kill")
            if count is not None:
                return count
    return None


def _memory_groups(root: Path, membership: str | None) -> Iterator[Path]:
    """Yield the folders of this process's control groups that may limit memory, the innermost first.

    `membership` is the content of `/proc/self/cgroup`.
    """
    lines = (_read_text("/proc/self/cgroup") if membership is None else membership).splitlines()
    for line in lines:
        number, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if "memory" in controllers.split(","):
            mount = root / "memory"
        elif number == "0":
            mount = root
        else:
            continue
        group = mount / path.lstrip("/")
        # In a container the folder of the group may be mounted as the root.
        while True:
            yield group
            if group == mount or mount not in group.parents:
                break
            group = group.parent


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


def _number(path: str | Path, name: str) -> int | None:
    lines = _read_text(path).splitlines()
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), None)


def _read_text(path: str | Path) -> str:
    """Return the content of a file; nothing if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


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
