"""Answers of commands on disk: each is one file, valid as long as everything that it was computed from is the same."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from lowtide.cache.dependencies import are_unchanged
from lowtide.cache.folder import ANSWERS, cache_folder, cache_limit, make_room, remove_entry

_CHECKSUM_BYTES = 16


def find_answer(key: str) -> bytes | None:
    """Return the answer to a question; None if there is none that is intact and still valid."""
    path = _path(key)
    try:
        content = path.read_bytes()
    except OSError:
        return None
    checksum, packed = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
    if checksum != _checksum(packed):
        remove_entry(path)
        return None
    header, _, answer = zlib.decompress(packed).partition(b"\n")
    if not are_unchanged(json.loads(header)):
        return None
    with contextlib.suppress(OSError):
        # The modification time orders entries by last use.
        os.utime(path)
    return answer


def add_answer(key: str, answer: bytes, dependencies: Mapping[str, str]) -> None:
    """Keep an answer with the state of the files it was computed from; a folder that cannot be written is no error."""
    limit_bytes = cache_limit()
    packed = zlib.compress(json.dumps(dependencies).encode() + b"\n" + answer, 1)
    path = _path(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when it is complete, so that other processes see all of it or nothing.
        handle, name = tempfile.mkstemp(prefix="writing-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_checksum(packed) + packed)
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError:
        return
    make_room(path, limit_bytes)


def _path(key: str) -> Path:
    return cache_folder() / ANSWERS / key


def _checksum(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=_CHECKSUM_BYTES).digest()
