"""Which file a cut is written to, by its ending."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from lowtide.atlas.cuts.cut import Cut
from lowtide.errors import LowtideError
from lowtide.units import parse_bytes

# By name, because pictures are drawn by the views, which lie above this room.
_WRITERS = {
    ".svg": "lowtide.view.pictures.graph_svg:write_svg",
    ".png": "lowtide.view.pictures.graph_png:write_png",
    ".json": "lowtide.atlas.exports.json_file:write_json",
    ".graphml": "lowtide.atlas.exports.graphml:write_graphml",
    ".dot": "lowtide.atlas.exports.dot:write_dot",
    ".pb": "lowtide.atlas.exports.graph_def:write_graph_def",
}
ENDINGS = tuple(_WRITERS)


def check_ending(path: Path, limit_attributes: int | str | None = None) -> None:
    """Refuse what cannot be written, before any time is spent on what to write."""
    if path.suffix not in _WRITERS:
        raise LowtideError("no graph is written to such a file", given=path, cure=f"end it in {', '.join(ENDINGS)}")
    if limit_attributes is not None and path.suffix != ".pb":
        raise LowtideError("only a .pb has attributes to limit", given=path, cure="write a .pb, or leave the limit out")


def write(
    cut: Cut, path: Path, limit_attributes: int | str | None = None, notes: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Write a cut; returns what there is to know of the file. It takes its place when it is complete."""
    check_ending(path, limit_attributes)
    module, _, name = _WRITERS[path.suffix].partition(":")
    writer = getattr(import_module(module), name)
    options: dict[str, object] = {} if limit_attributes is None else {"limit": parse_bytes(limit_attributes)}
    if path.suffix == ".json":
        options["notes"] = notes
    try:
        handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.absolute().parent)
        os.close(handle)
        try:
            told: tuple[str, ...] = writer(cut, Path(unfinished), **options)
            Path(unfinished).chmod(0o666 & ~_umask())
            os.replace(unfinished, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
    except OSError as error:
        raise LowtideError(f"cannot write: {error.strerror}", given=path) from error
    return told


def _umask() -> int:
    """What new files of this process are not allowed; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
