"""What a result depends on besides its program: the machine, the interpreter, installed packages, the environment."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

# To be increased when the meaning of an entry changes.
SCHEMA_VERSION = 1

# Variables that describe the terminal, the session or the cache itself. All others may matter to some program.
_IGNORED_VARIABLES = frozenset(
    "_ COLORTERM COLUMNS DISPLAY FORCE_COLOR HISTFILE HISTSIZE LINES LOWTIDE_CACHE LOWTIDE_CACHE_LIMIT LS_COLORS MAIL "
    "NO_COLOR OLDPWD PS1 PS2 PWD PYTEST_CURRENT_TEST SHLVL STY TERM TERM_PROGRAM TERM_PROGRAM_VERSION TERM_SESSION_ID "
    "TMUX TMUX_PANE WINDOWID XDG_SESSION_ID".split()
)
_IGNORED_PREFIXES = ("DBUS_", "SSH_", "VSCODE_", "XDG_RUNTIME")
_OWN = Path(__file__).parents[1]
_INSTALLED_ENDINGS = (".dist-info", ".egg-info", ".egg-link", ".pth", ".egg")


def surroundings() -> dict[str, object]:
    """Return everything that a result of this process depends on besides its program, as plain data."""
    return {
        "schema": SCHEMA_VERSION,
        "source": source_digest(),
        "python": [sys.version, sys.prefix, sys.flags.optimize, list(map(os.path.abspath, sys.path))],
        "installed": installed_digest(sys.path),
        "machine": _machine(),
        "variables": relevant_variables(os.environ),
    }


def key_of(*parts: object) -> str:
    """Return a digest of plain data."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=20).hexdigest()


def relevant_variables(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the environment variables that may change a result."""
    return sorted(
        (name, value)
        for name, value in environment.items()
        if name not in _IGNORED_VARIABLES and not name.startswith(_IGNORED_PREFIXES)
    )


@cache
def source_digest() -> str:
    """Return a digest of lowtide's own source."""
    total = hashlib.blake2b(digest_size=16)
    for path in sorted(_OWN.rglob("*.py")):
        total.update(str(path).encode() + path.read_bytes())
    return total.hexdigest()


def installed_digest(folders: Iterable[str]) -> str:
    """Return a digest of the packages that are installed in these folders: names, versions, times of installation."""
    found = []
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name.endswith(_INSTALLED_ENDINGS):
                    found.append((entry.name, entry.stat().st_mtime_ns))
    return key_of(sorted(found))


@cache
def installed_roots() -> tuple[str, ...]:
    """Return the folders of packages and of Python's own library, whose files change only with a version."""
    paths = sysconfig.get_paths()
    roots = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {str(_OWN)}
    return tuple(sorted({os.path.join(path, "") for root in roots for path in (root, os.path.realpath(root))}))


def is_installed(path: str) -> bool:
    """Whether a file belongs to an installed package, to Python or to lowtide."""
    return path.startswith((*installed_roots(), "<frozen "))


def _machine() -> list[object]:
    """Return the processor's name and flags, how many may be used, and the devices of GPUs."""
    lines: set[str] = set()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        # Lines such as the current frequency differ from moment to moment.
        lines = {
            line for line in file if line.startswith(("model name", "flags", "Features", "cache size", "CPU part"))
        }
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpus = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    return [platform.machine(), platform.release(), sorted(lines), usable, os.cpu_count(), gpus]
