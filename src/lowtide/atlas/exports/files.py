"""Write a cut to a file in the format of its suffix."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lowtide.atlas.cuts.cut import Cut
from lowtide.atlas.drawing.png import write_png
from lowtide.atlas.drawing.svg import write_svg
from lowtide.atlas.exports.dot import write_dot
from lowtide.atlas.exports.graph_def import write_graph_def
from lowtide.atlas.exports.graphml import write_graphml
from lowtide.atlas.exports.json_file import write_json
from lowtide.errors import LowtideError
from lowtide.units import parse_bytes

_WRITERS: dict[str, Callable[..., tuple[str, ...]]] = {
    ".svg": write_svg,
    ".png": write_png,
    ".json": write_json,
    ".graphml": write_graphml,
    ".dot": write_dot,
    ".pb": write_graph_def,
}
ENDINGS = tuple(_WRITERS)


def check_ending(path: Path, limit_attributes: int | str | None = None) -> None:
    """Raise an error if the file cannot be written, before any work is done."""
    if path.suffix not in _WRITERS:
        raise LowtideError("no graph is written to such a file", given=path, cure=f"end it in {', '.join(ENDINGS)}")
    if limit_attributes is not None and path.suffix != ".pb":
        raise LowtideError("only a .pb has attributes to limit", given=path, cure="write a .pb, or leave the limit out")


def write(
    cut: Cut, path: Path, limit_attributes: int | str | None = None, notes: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Write a cut and return notes about the file. The file is replaced atomically when it is complete."""
    check_ending(path, limit_attributes)
    options: dict[str, object] = {} if limit_attributes is None else {"limit": parse_bytes(limit_attributes)}
    if path.suffix == ".json":
        options["notes"] = notes
    try:
        handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.absolute().parent)
        os.close(handle)
        try:
            written = _WRITERS[path.suffix](cut, Path(unfinished), **options)
            Path(unfinished).chmod(0o666 & ~_umask())
            os.replace(unfinished, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
    except OSError as error:
        raise LowtideError(f"cannot write: {error.strerror}", given=path) from error
    return written


def _umask() -> int:
    """Return the umask of this process, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
