"""The files that a result was computed from, and whether they are still the same.

While a program is loaded and traced, Python's audit events give the files that it opens and the folders that it lists,
and the loaded modules give what it imported. A program that asked another process or the network cannot be checked
later.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lowtide.cache.surroundings import is_installed

# Larger files are compared by size and time.
_MOST_HASHED_BYTES = 64 << 20
_ELSEWHERE = frozenset(
    "socket.connect subprocess.Popen os.system os.exec os.posix_spawn os.spawn os.fork "
    "urllib.Request sqlite3.connect".split()
)
_LISTINGS = frozenset({"os.listdir", "os.scandir"})
_SYSTEM = ("/proc/", "/sys/", "/dev/")


class Observation:
    """What a program read while it was observed."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.written: set[str] = set()
        """Files that the program wrote before it read them."""
        self.is_paused = False
        self.asked_elsewhere: str | None = None
        """The first event that shows that the result may depend on another process or the network."""

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not observe what lowtide reads for itself."""
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False

    def dependencies(self) -> dict[str, str] | None:
        """Return the state of each file that was read or imported; None if the result depends on more than files."""
        if self.asked_elsewhere is not None:
            return None
        modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        paths = self.paths | {os.path.abspath(path) for path in modules if isinstance(path, str)}
        return {path: state_of(path) for path in sorted(paths)}


_observations: list[Observation] = []
_is_hooked = False


@contextmanager
def observing() -> Iterator[Observation]:
    """Observe what this process reads."""
    global _is_hooked
    if not _is_hooked:
        # An audit hook cannot be removed.
        sys.addaudithook(_on_event)
        _is_hooked = True
    observation = Observation()
    keras_folder = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
    # Keras may have been imported before.
    observation.paths.add(os.path.join(keras_folder, "keras.json"))
    _observations.append(observation)
    try:
        yield observation
    finally:
        _observations.remove(observation)


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if not _observations:
        return
    if event == "open" and arguments:
        _note(arguments[0], _creates(arguments))
    elif event in _LISTINGS:
        caller = sys._getframe(1).f_code.co_filename
        if not caller.startswith("<frozen importlib"):
            _note("." if not arguments or arguments[0] is None else arguments[0], False)
    elif event in _ELSEWHERE and not _is_uname(arguments):
        for observation in _observations:
            observation.asked_elsewhere = observation.asked_elsewhere or event


def _is_uname(arguments: tuple[Any, ...]) -> bool:
    """Whether a process is what Python's `platform` starts to learn the name of the processor."""
    return bool(arguments) and arguments[0] == "uname"


def _creates(arguments: tuple[Any, ...]) -> bool:
    """Whether a file is opened to be written from the start."""
    flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
    return flags & (os.O_WRONLY | os.O_RDWR) != 0 and flags & (os.O_TRUNC | os.O_EXCL) != 0


def _note(path: Any, is_written: bool) -> None:
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    name = os.path.abspath(os.fsdecode(path))
    if is_installed(os.path.join(name, "")) or is_installed(name) or os.path.join(name, "").startswith(_SYSTEM):
        return
    if name.endswith(".pyc"):
        with suppress(ValueError):
            name = importlib.util.source_from_cache(name)
    for observation in _observations:
        if observation.is_paused or name in observation.written:
            continue
        (observation.written if is_written and name not in observation.paths else observation.paths).add(name)


def state_of(path: str) -> str:
    """Return what identifies the content of a file, or the listing of a folder."""
    try:
        status = os.stat(path)
        if is_installed(path):
            return f"{status.st_size} {status.st_mtime_ns}"
        if os.path.isdir(path):
            return hashlib.blake2b("\0".join(sorted(os.listdir(path))).encode(), digest_size=16).hexdigest()
        if status.st_size > _MOST_HASHED_BYTES or not os.path.isfile(path):
            return f"{status.st_size} {status.st_mtime_ns}"
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
    except (OSError, ValueError):
        return "unreadable"


def are_unchanged(dependencies: Mapping[str, str]) -> bool:
    """Whether all files are as they were."""
    return all(state_of(path) == state for path, state in dependencies.items())
