"""Checksums that tell whether a file of the cache is as it was written."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, BinaryIO

# A checksum of a complete graph, or of a large column, would take as long as its index: only samples of it are hashed.
_SAMPLES, _SAMPLE_BYTES = 64, 4096
_MOST_HASHED_BYTES = 4 << 20


def fingerprint(path: Path) -> str:
    """Return the size of a file, and a checksum of its content or, if it is large, of samples of it."""
    size = path.stat().st_size
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        if size <= _MOST_HASHED_BYTES:
            digest.update(file.read())
        else:
            hash_samples(file, 0, size, digest)
    return f"{size}-{digest.hexdigest()}"


def hash_samples(file: BinaryIO, start: int, end: int, digest: Any) -> None:
    """Add samples of a part of a file to a checksum."""
    for piece in range(_SAMPLES):
        file.seek(start + piece * max(end - start - _SAMPLE_BYTES, 0) // max(_SAMPLES - 1, 1))
        digest.update(file.read(_SAMPLE_BYTES))
