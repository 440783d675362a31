"""Checkpoints as folders: written elsewhere, synced, renamed, and checked before they are read.

A checkpoint is a folder below `checkpoints/`. Its manifest lists every file with its size and its SHA-256, and is
written last. A folder appears under its final name only when everything in it is on disk, so a process that is killed
at any moment leaves either a complete checkpoint or a `.part` folder, which the next one removes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lowtide.errors import LowtideError
from lowtide.units import format_count

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
KEPT = 2
"""How many checkpoints are kept, besides those at the end of a training."""
_PART = ".part"
_END = "-end"
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Damaged:
    """A checkpoint that cannot be used, and why."""

    path: Path
    problem: str


def checkpoint_name(steps_done: int, *, is_end: bool = False) -> str:
    """Return the name of the checkpoint that is written after `steps_done` steps. Sorted names are in order of age."""
    return f"{steps_done:012}{_END if is_end else ''}"


def steps_of(path: Path) -> int:
    """Return the number of steps after which a checkpoint was written."""
    return int(path.name.removesuffix(_END))


class UnfinishedCheckpoint:
    """A checkpoint that is being written; it is in `path` once it is finished.

    If anything fails before, its folder is removed, and what was there before is still there.
    """

    def __init__(self, parent: Path, name: str) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        _remove_parts(parent)
        self._part = parent / f"{name}{_PART}"
        self.path = parent / name

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """Yield the folder, to write files into it."""
        try:
            self._part.mkdir(exist_ok=True)
            yield self._part
        except BaseException:
            shutil.rmtree(self._part, ignore_errors=True)
            raise

    def finish(self) -> Path:
        """Give the folder its final name once it is on disk, and return its path.

        A checkpoint of the same name is replaced, and those of later steps are removed: they are damaged, and the run
        was continued without them.
        """
        final, parent = self.path, self.path.parent
        with self.filling() as part:
            _seal(part)
            if final.exists():
                # A folder that is not empty cannot be replaced by renaming.
                final.rename(parent / f"{final.name}.old{_PART}")
            part.rename(final)
        _sync(parent)
        for path in _names(parent):
            if steps_of(path) > steps_of(final):
                remove_checkpoint(path)
        _remove_parts(parent)
        return final


def write_checkpoint(parent: Path, name: str, write: Callable[[Path], object]) -> Path:
    """Let `write` fill the folder of a new checkpoint, and finish it."""
    checkpoint = UnfinishedCheckpoint(parent, name)
    with checkpoint.filling() as folder:
        write(folder)
    return checkpoint.finish()


def prune(parent: Path, kept: int = KEPT) -> None:
    """Remove all checkpoints but the newest; those at the end of a training stay."""
    running = [path for path in _names(parent) if not path.name.endswith(_END)]
    for path in running[:-kept]:
        remove_checkpoint(path)


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint; it is renamed first, so that a process killed meanwhile leaves none with missing files."""
    gone = path.with_name(f"{path.name}.old{_PART}")
    path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def newest_checkpoint(parent: Path) -> tuple[Path | None, list[Damaged]]:
    """Return the newest checkpoint that is complete and unchanged, and the damaged ones that are newer."""
    damaged: list[Damaged] = []
    for path in reversed(_names(parent)):
        problem = find_damage(path)
        if problem is None:
            return path, damaged
        damaged.append(Damaged(path, problem))
    return None, damaged


def end_checkpoints(parent: Path) -> list[Path]:
    """Return the checkpoints that were written at the end of a training, the first training first."""
    return [path for path in _names(parent) if path.name.endswith(_END)]


def find_damage(path: Path) -> str | None:
    """Return what is wrong with a checkpoint; None if every file is as it was written.

    A checkpoint of a newer version is an error: an older one would be restored in its place otherwise.
    """
    manifest = path / MANIFEST
    try:
        stored = json.loads(manifest.read_text(encoding="utf-8"))
        files = {str(name): (int(size), str(digest)) for name, (size, digest) in stored["files"].items()}
        version = int(stored["schema_version"])
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return f"{MANIFEST} is not readable"
    if version > SCHEMA_VERSION:
        raise LowtideError(
            "the checkpoint was written by a newer version of lowtide",
            given=f"{path}, version {version}, and this one reads {SCHEMA_VERSION}",
            cure="install that version, or start a new run",
        )
    for name, (size, digest) in files.items():
        problem = _find_file_damage(path / name, size, digest)
        if problem is not None:
            return problem
    return None


def _find_file_damage(path: Path, size: int, digest: str) -> str | None:
    try:
        found = path.stat().st_size
        if found != size:
            return f"{path.name} has {found:,} of {format_count(size, 'byte')}"
        return None if _digest(path) == digest else f"{path.name} has changed since it was written"
    except FileNotFoundError:
        return f"{path.name} is missing"
    except OSError as error:
        return f"{path.name} is not readable: {error.strerror}"


def _names(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.name.removesuffix(_END).isdigit() and path.is_dir())


def _seal(folder: Path) -> None:
    """Write the manifest, and bring all files to the disk."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            _sync(path)
            files[path.relative_to(folder).as_posix()] = (path.stat().st_size, _digest(path))
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps({"schema_version": SCHEMA_VERSION, "files": files}), encoding="utf-8")
    for path in (manifest, *(each for each in folder.rglob("*") if each.is_dir()), folder):
        _sync(path)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_parts(parent: Path) -> None:
    for path in parent.glob(f"*{_PART}"):
        shutil.rmtree(path, ignore_errors=True)
