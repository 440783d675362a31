"""The cache of indexes: an index is built once for a graph in a file, and again when the file has changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from lowtide.atlas.atlas import Atlas, Source
from lowtide.atlas.index.build import build
from lowtide.atlas.screens.screen_cache import write_heavy_screens
from lowtide.errors import LowtideError
from lowtide.progress import Progress, ProgressCallback
from lowtide.units import parse_bytes

# To be increased with every change of the columns or of the hash of names.
SCHEMA_VERSION = 2

_HEADER = "header.json"
_LIMIT = "20GiB"
# A checksum of the complete graph would take as long as its index, so only samples of it are hashed.
_SAMPLES, _SAMPLE_BYTES = 64, 4096


def cache_folder() -> Path:
    """Return the folder of the cache: LOWTIDE_CACHE, or a folder in the user's cache."""
    given = os.environ.get("LOWTIDE_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lowtide"


def open_atlas(source: Source, progress: ProgressCallback | None = None, cache: Path | None = None) -> Atlas:
    """Return the index of a graph; build it if there is none or the file has changed."""
    found = find_atlas(source, cache)
    return build_atlas(source, progress, cache) if found is None else found


def find_atlas(source: Source, cache: Path | None = None) -> Atlas | None:
    """Return the index of a graph if there is one for the current state of the file."""
    try:
        state = _state(source)
        folder = _folder(source, state, cache)
        header = json.loads((folder / _HEADER).read_text(encoding="utf-8"))
        if header["schema_version"] != SCHEMA_VERSION or header["file"] != state:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    with contextlib.suppress(OSError):
        # The modification time orders indexes by last use.
        os.utime(folder / _HEADER)
    return Atlas(folder, header, source)


def build_atlas(source: Source, progress: ProgressCallback | None = None, cache: Path | None = None) -> Atlas:
    """Build the index of a graph, even if there is one."""
    limit_bytes = cache_limit()
    state = _state(source)
    folder = _folder(source, state, cache)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    except OSError as error:
        raise LowtideError(
            f"cannot write an index: {error.strerror}", given=folder.parent, cure="set LOWTIDE_CACHE to another folder"
        ) from error
    try:
        header = build(source.path, source.start, source.end, fresh, progress or (lambda progress: None))
        header |= {"schema_version": SCHEMA_VERSION, "file": state, "path": str(source.path), "label": source.label}
        (fresh / _HEADER).write_text(json.dumps(header), encoding="utf-8")
        if progress is not None:
            progress(Progress("folding large scopes", 0.99, 1, int(header["nodes"])))
        write_heavy_screens(Atlas(fresh, header, source))
        # Processes that have an old index open keep their mappings. The new index has a new folder, so that no process
        # mixes columns of both.
        for old in folder.parent.glob(f"{folder.name.partition('-')[0]}-*"):
            shutil.rmtree(old, ignore_errors=True)
        with contextlib.suppress(OSError):
            # Another process may have built the same index in the meantime.
            fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    _make_room(folder, limit_bytes)
    return read_atlas(folder, source)


def cache_limit() -> int:
    """Return the most bytes that all indexes may take: LOWTIDE_CACHE_LIMIT, or 20 GiB."""
    return parse_bytes(os.environ.get("LOWTIDE_CACHE_LIMIT") or _LIMIT)


def _make_room(kept: Path, limit_bytes: int) -> None:
    """Remove the least recently used indexes, except `kept`, until the others fit."""
    found = []
    for header in kept.parent.glob(f"*/{_HEADER}"):
        # Another process may remove the same indexes.
        with contextlib.suppress(OSError):
            size = sum(file.stat().st_size for file in header.parent.iterdir())
            found.append((header.stat().st_mtime_ns, size, header.parent))
    total = sum(size for _, size, _ in found)
    for _, size, folder in sorted(found):
        if total <= limit_bytes:
            break
        if folder != kept:
            shutil.rmtree(folder, ignore_errors=True)
            total -= size


def read_atlas(folder: Path, source: Source) -> Atlas:
    """Open the index in a folder, even if the file has changed since it was built."""
    return Atlas(folder, json.loads((folder / _HEADER).read_text(encoding="utf-8")), source)


def _folder(source: Source, state: dict[str, Any], cache: Path | None) -> Path:
    place, version = _digest(source.path.resolve(), source.start), _digest(source.end, json.dumps(state))
    return (cache or cache_folder()) / "graphs" / f"{place}-{version}"


def _digest(*values: object) -> str:
    text = "\0".join(map(str, values))
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=12).hexdigest()


def _state(source: Source) -> dict[str, Any]:
    """Identify a version of a graph: size and time of the file, and a checksum of samples of the graph."""
    status = source.path.stat()
    end = min(source.end, status.st_size)
    digest = hashlib.blake2b(digest_size=16)
    with source.path.open("rb") as file:
        for piece in range(_SAMPLES):
            file.seek(source.start + piece * max(end - source.start - _SAMPLE_BYTES, 0) // max(_SAMPLES - 1, 1))
            digest.update(file.read(_SAMPLE_BYTES))
    state: dict[str, Any] = {"bytes": end - source.start, "checksum": digest.hexdigest()}
    # If the span is settled, the file may grow without changing the graph.
    return state if source.is_settled else state | {"time": status.st_mtime_ns, "file_bytes": status.st_size}
