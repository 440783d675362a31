"""What processes hold, as Linux counts it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def family(root: int) -> list[int]:
    """A process and all that it started, and what these started."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and (parent := _parent(int(entry))) is not None:
            parents.setdefault(parent, []).append(int(entry))
    found = [root]
    for process in found:
        found += parents.get(process, ())
    return found


def _parent(process: int) -> int | None:
    try:
        # The name stands in brackets and may hold anything.
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def shared_out_bytes(processes: Iterable[int]) -> int:
    """PSS: each page counts once, shared out among those that map it. A mapped file counts as far as it is resident."""
    return sum(_read(Path(f"/proc/{process}/smaps_rollup"), "Pss") for process in processes)


def unfiled_bytes(processes: Iterable[int]) -> int:
    """PSS without mapped files, of which the shares change when another program that maps them starts or ends."""
    paths = [Path(f"/proc/{process}/smaps_rollup") for process in processes]
    return sum(_read(path, "Pss_Anon") + _read(path, "Pss_Shmem") for path in paths)


def resident_bytes(processes: Iterable[int]) -> int:
    """RSS: a page that several map counts for each of them."""
    return sum(_read(Path(f"/proc/{process}/smaps_rollup"), "Rss") for process in processes)


def peak_bytes(process: int | str = "self") -> int:
    """VmHWM: the most that was ever resident, mapped files among it."""
    return _read(Path(f"/proc/{process}/status"), "VmHWM")


def own_bytes(process: int | str = "self") -> int:
    """What is resident now and belongs to no file."""
    return _read(Path(f"/proc/{process}/status"), "RssAnon")


def held_bytes(process: int | str = "self") -> int:
    """What is resident now and belongs to no file on a disk: at least PSS of the same, and cheap to ask for."""
    status = Path(f"/proc/{process}/status")
    return _read(status, "RssAnon") + _read(status, "RssShmem")


def _read(path: Path, field: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        # It has ended.
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:")), 0)


def count_others(name: str, own: Iterable[int]) -> int:
    """How many processes of this name are not among one's own."""
    known = set(own)
    others = (int(entry) for entry in os.listdir("/proc") if entry.isdecimal() and int(entry) not in known)
    return sum(_name(process) == name for process in others)


def _name(process: int) -> str | None:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return None
