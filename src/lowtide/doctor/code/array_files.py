"""What is known of files with arrays: shapes from the headers of `.npy` and `.npz` files, and what names tell."""

from __future__ import annotations

import ast
import math
import re
import struct
import zipfile
from pathlib import Path
from typing import IO

from lowtide.doctor.code.module import Module

Header = tuple[tuple[int, ...], int]
"""The shape of an array and the bytes of one element."""
# Names of files and variables that hold parameters or labels instead of samples.
_SMALL_NAMES = re.compile(
    r"prior|anchor|mean|std|stat|scal|vocab|label|class|config|kernel|template|palette|target|weight|(?<![a-z])(y|ys|ids?)(?![a-z])",
    re.IGNORECASE,
)
# Arrays of texts have such names.
_TEXTS = re.compile(r"name|path|caption|title|text|word", re.IGNORECASE)


def read_header(path: Path) -> Header | None:
    """Return the shape and the bytes of an element of an array in an .npy file, or of the largest in an .npz file."""
    try:
        if path.suffix == ".npy":
            with path.open("rb") as file:
                return _read_npy_header(file)
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                found = []
                for name in archive.namelist():
                    with archive.open(name) as member:
                        found.append(_read_npy_header(member))
            known = [each for each in found if each is not None]
            return max(known, key=lambda each: math.prod(each[0]) * each[1], default=None)
    except (OSError, ValueError, SyntaxError, KeyError, struct.error, zipfile.BadZipFile):
        return None
    return None


def _read_npy_header(file: IO[bytes]) -> Header | None:
    if file.read(6) != b"\x93NUMPY":
        return None
    version = file.read(2)
    length = struct.unpack("<H", file.read(2))[0] if version[0] == 1 else struct.unpack("<I", file.read(4))[0]
    header = ast.literal_eval(file.read(min(length, 1 << 16)).decode("latin1"))
    kind = header["descr"]
    if not isinstance(kind, str):
        return None
    unit = 4 if kind[1] == "U" else 1
    return tuple(int(each) for each in header["shape"]), int(kind[2:]) * unit


_TEXT_TYPES = ("builtins.str", "numpy.str", "numpy.str_", "numpy.bytes_", "numpy.unicode_", "numpy.object_")
# Arrays of texts have such names.
_TEXTS = re.compile(r"name|path|list|caption|title|text|word|(?<![a-z])caps?(?![a-z])", re.IGNORECASE)


def is_probably_small(module: Module, node: ast.Call, source: ast.expr | None, text: object) -> bool:
    """Whether a file is a download of a tutorial, or is named like a table of parameters."""
    above = module.scopes.parent(node)
    target = above.targets[0] if isinstance(above, ast.Assign) else None
    bound = module.text(target) if target else ""
    dtype = module.argument(node, None, "dtype")
    if module.constant(dtype) in ("str", "U") or (module.name(dtype) or "") in _TEXT_TYPES:
        return True
    if isinstance(text, str):
        return "://" in text or _SMALL_NAMES.search(text) is not None or _TEXTS.search(bound) is not None
    if _SMALL_NAMES.search(f"{module.text(source) if source else ''} {bound}") or _TEXTS.search(bound):
        return True
    maker = source
    if isinstance(source, ast.Name):
        bindings = module.scopes.find(source)
        maker = bindings[-1].value if bindings else None
    return isinstance(maker, ast.Call) and (module.name(maker.func) or "") in (
        "keras.utils.get_file",
        "urllib.request.urlopen",
    )
