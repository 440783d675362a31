"""The cache of indexes: an index is built once for a graph in a file, and again when the file has changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

from lowtide.atlas.atlas import Atlas, Source
from lowtide.atlas.index.build import build
from lowtide.atlas.screens.screen_cache import write_heavy_screens
from lowtide.cache.fingerprint import fingerprint, hash_samples
from lowtide.cache.folder import GRAPHS, HEADER, cache_folder, cache_limit, make_room, remove_entry
from lowtide.errors import LowtideError
from lowtide.progress import Progress, ProgressCallback

# To be increased with every change of the columns or of the hash of names.
SCHEMA_VERSION = 6


class DamagedIndexError(ValueError):
    """The files of an index are not as they were written, or another version of lowtide wrote them."""


def open_atlas(source: Source, progress: ProgressCallback | None = None, cache: Path | None = None) -> Atlas:
    """Return the index of a graph; build it if there is none or the file has changed."""
    found = find_atlas(source, cache)
    return build_atlas(source, progress, cache) if found is None else found


def find_atlas(source: Source, cache: Path | None = None) -> Atlas | None:
    """Return the index of a graph if there is one for the current state of the file."""
    try:
        state = _state(source)
        folder = _folder(source, state, cache)
        header = _read_header(folder)
    except (OSError, ValueError):
        return None
    if header["file"] != state:
        return None
    with contextlib.suppress(OSError):
        # The modification time orders indexes by last use.
        os.utime(folder / HEADER)
    return Atlas(folder, header, source)


def build_atlas(source: Source, progress: ProgressCallback | None = None, cache: Path | None = None) -> Atlas:
    """Build the index of a graph, even if there is one."""
    limit_bytes = cache_limit()
    state = _state(source)
    folder = _folder(source, state, cache)
    # Named before it exists, so that the folder is removed even if a signal ends the process while it is being made.
    fresh = folder.parent / f"building-{uuid.uuid4().hex}"
    try:
        _make_folder(fresh)
        header = build(source.path, source.start, source.end, fresh, progress or (lambda progress: None))
        header |= {"schema_version": SCHEMA_VERSION, "file": state, "path": str(source.path), "label": source.label}
        if progress is not None:
            progress(Progress("folding large scopes", 0.99, 1, int(header["nodes"])))
        write_heavy_screens(Atlas(fresh, header, source))
        _write_header(fresh, header)
        _replace(folder, fresh)
        make_room(folder, limit_bytes)
        return read_atlas(folder, source)
    except (OSError, DamagedIndexError) as error:
        _check_readable(source)
        problem = getattr(error, "strerror", None) or str(error)
        cure = "free space there, delete this folder, or set LOWTIDE_CACHE to another one"
        raise LowtideError(f"cannot write an index: {problem}", given=folder.parent, cure=cure) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _make_folder(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise LowtideError(
            f"cannot write an index: {error.strerror}", given=folder.parent, cure="set LOWTIDE_CACHE to another folder"
        ) from error


def _check_readable(source: Source) -> None:
    """Raise the error of a graph file that cannot be read, so that the cache is not blamed for it."""
    with source.path.open("rb") as file:
        file.read(1)


def _replace(folder: Path, fresh: Path) -> None:
    """Put a new index in the place of older ones.

    Processes that have an old index open keep their mappings. The new index has a new folder, so that no process mixes
    columns of both.
    """
    for old in folder.parent.glob(f"{folder.name.partition('-')[0]}-*"):
        remove_entry(old)
    with contextlib.suppress(OSError):
        # Another process may have built the same index in the meantime.
        fresh.rename(folder)


def read_atlas(folder: Path, source: Source) -> Atlas:
    """Open the index in a folder, even if the file has changed since it was built; an error if it is damaged."""
    return Atlas(folder, _read_header(folder), source)


def _read_header(folder: Path) -> dict[str, Any]:
    """Read the header of an index and compare the files of the index with it."""
    try:
        header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        checksum = header.pop("checksum")
        is_intact = header["schema_version"] == SCHEMA_VERSION and checksum == _digest(_as_text(header))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedIndexError(f"{HEADER} of the index is damaged") from error
    if not is_intact:
        raise DamagedIndexError(f"{HEADER} of the index is damaged or of another version")
    for name, expected in header["files"].items():
        if fingerprint(folder / name) != expected:
            raise DamagedIndexError(f"{name} of the index is damaged")
    return dict(header)


def _write_header(folder: Path, header: dict[str, Any]) -> None:
    """Write the header with the checksums of all files of the index."""
    # As it will be read: JSON has no tuples.
    complete = json.loads(_as_text(header | {"files": {file.name: fingerprint(file) for file in folder.iterdir()}}))
    content = _as_text(complete | {"checksum": _digest(_as_text(complete))})
    (folder / HEADER).write_text(content, encoding="utf-8")


def _as_text(header: dict[str, Any]) -> str:
    return json.dumps(header, sort_keys=True)


def _folder(source: Source, state: dict[str, Any], cache: Path | None) -> Path:
    place, version = _digest(source.path.resolve(), source.start), _digest(source.end, json.dumps(state))
    return (cache or cache_folder()) / GRAPHS / f"{place}-{version}"


def _digest(*values: object) -> str:
    text = "\0".join(map(str, values))
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=12).hexdigest()


def _state(source: Source) -> dict[str, Any]:
    """Identify a version of a graph: size and time of the file, and a checksum of samples of the graph."""
    status = source.path.stat()
    end = min(source.end, status.st_size)
    digest = hashlib.blake2b(digest_size=16)
    with source.path.open("rb") as file:
        hash_samples(file, source.start, end, digest)
    state: dict[str, Any] = {"bytes": end - source.start, "checksum": digest.hexdigest()}
    # If the span is settled, the file may grow without changing the graph.
    return state if source.is_settled else state | {"time": status.st_mtime_ns, "file_bytes": status.st_size}
