"""Where indexes lie: built once for a graph in a file, found again, and built again when the file has changed."""

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
from lowtide.atlas.build import Tell, build
from lowtide.atlas.screens import write_heavy_screens
from lowtide.errors import LowtideError

# With every change of the columns or of how names are hashed.
SCHEMA_VERSION = 1

_HEADER = "header.json"
# A checksum of a whole file would take as long as its index: so many pieces of it tell one from another.
_SAMPLES, _SAMPLE_BYTES = 64, 4096


def cache_folder() -> Path:
    """Where indexes are kept: LOWTIDE_CACHE, or the user's cache."""
    given = os.environ.get("LOWTIDE_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lowtide"


def open_atlas(source: Source, tell: Tell | None = None, cache: Path | None = None) -> Atlas:
    """The index of a graph: as it lies there, or built now if there is none or the file has changed."""
    found = find_atlas(source, cache)
    return build_atlas(source, tell, cache) if found is None else found


def find_atlas(source: Source, cache: Path | None = None) -> Atlas | None:
    """The index of a graph if there is one for the file as it is."""
    folder = _folder(source, cache)
    try:
        header = json.loads((folder / _HEADER).read_text(encoding="utf-8"))
        if header["schema_version"] != SCHEMA_VERSION or header["file"] != _state(source.path):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Atlas(folder, header, source)


def build_atlas(source: Source, tell: Tell | None = None, cache: Path | None = None) -> Atlas:
    """Build the index of a graph, whatever lies there."""
    folder = _folder(source, cache)
    state = _state(source.path)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    except OSError as error:
        raise LowtideError(
            f"cannot write an index: {error.strerror}", given=folder.parent, cure="set LOWTIDE_CACHE to another folder"
        ) from error
    try:
        header = build(source.path, source.start, source.end, fresh, tell or (lambda stage, share, nodes: None))
        header |= {"schema_version": SCHEMA_VERSION, "file": state, "path": str(source.path), "label": source.label}
        (fresh / _HEADER).write_text(json.dumps(header), encoding="utf-8")
        if tell is not None:
            tell("folding large scopes", 0.99, int(header["nodes"]))
        write_heavy_screens(Atlas(fresh, header, source))
        # Whoever has the old one open keeps it: its files live on until they are closed.
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
        with contextlib.suppress(OSError):
            # Another process may have been quicker; then its index is as good.
            fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Atlas(folder, json.loads((folder / _HEADER).read_text(encoding="utf-8")), source)


def _folder(source: Source, cache: Path | None) -> Path:
    key = f"{source.path.resolve()}\0{source.start}\0{source.end}"
    return (cache or cache_folder()) / "graphs" / hashlib.blake2b(key.encode(), digest_size=12).hexdigest()


def _state(path: Path) -> dict[str, Any]:
    """What tells whether a file is the same: its size, its time, and a checksum of pieces of it."""
    status = path.stat()
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        for piece in range(_SAMPLES):
            file.seek(piece * max(status.st_size - _SAMPLE_BYTES, 0) // max(_SAMPLES - 1, 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return {"bytes": status.st_size, "time": status.st_mtime_ns, "checksum": digest.hexdigest()}
