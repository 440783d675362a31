"""The files that lowtide writes: a zip with a JSON header that says what it is, and members beside it."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

from lowtide.errors import LowtideError

# What reading a damaged or foreign file may raise, from the zip down to the fields of the header.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    EOFError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
)

# Every noun that has a file, so that one can be told from another.
_NOUNS = ("tide", "plan")

_Content = TypeVar("_Content")

Read = Callable[[str], bytes]


@dataclass(frozen=True)
class FileFormat:
    """One sort of file: what it is called, its version, and how a person gets one."""

    noun: str
    schema_version: int
    made_by: str
    """What writes such a file."""
    again: str
    """What to do with one of another version."""

    @property
    def name(self) -> str:
        """What the header says that the file is."""
        return f"lowtide {self.noun}"

    @property
    def header(self) -> str:
        """The member that is the header."""
        return f"{self.noun}.json"

    def pack(self, header: Mapping[str, Any], members: Mapping[str, bytes]) -> bytes:
        """Return the content of a file."""
        content = io.BytesIO()
        opening = {"format": self.name, "schema_version": self.schema_version}
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(self.header, json.dumps(opening | dict(header)))
            for name, member in members.items():
                archive.writestr(name, member)
        return content.getvalue()

    def unpack(
        self, content: bytes, given: object, rebuild: Callable[[dict[str, Any], frozenset[str], Read], _Content]
    ) -> _Content:
        """Return what `rebuild` makes of the header, the names of the members, and a function that reads one."""
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise self._refuse(given, f"it is not a .{self.noun} file, or it was cut off")
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = frozenset(archive.namelist())
                other = next((noun for noun in _NOUNS if f"{noun}.json" in members), self.noun)
                if other != self.noun:
                    raise self._refuse(given, f"it is a {other}")
                header = json.loads(archive.read(self.header))
                if header["format"] != self.name:
                    raise ValueError(f"its format is {header['format']!r}")
                if header["schema_version"] != self.schema_version:
                    raise self._other_version(given, header["schema_version"])
                return rebuild(header, members, archive.read)
        except _DAMAGE as error:
            raise self._refuse(given, f"it is damaged, or was not written by lowtide: {error}") from error

    def write(self, path: str | PathLike[str], content: bytes) -> None:
        """Write a file, or say in one line why that is not possible."""
        try:
            Path(path).write_bytes(content)
        except OSError as error:
            raise LowtideError(f"cannot write the {self.noun}: {error.strerror}", given=fspath(path)) from error

    def read(self, path: str | PathLike[str]) -> bytes:
        """Read a file, or say in one line why that is not possible."""
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise LowtideError(f"cannot read the {self.noun}: {error.strerror}", given=fspath(path)) from error

    def _refuse(self, given: object, why: str) -> LowtideError:
        return LowtideError(f"not a {self.noun}: {why}", given=given, cure=f"give a file written by {self.made_by}")

    def _other_version(self, given: object, version: object) -> LowtideError:
        return LowtideError(
            f"a {self.noun} of schema version {version}, where this lowtide reads {self.schema_version}",
            given=given,
            cure=f"read it with the version of lowtide that wrote it, or {self.again}",
        )
