"""The files that lowtide writes: a zip with a JSON header and further members."""

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

# Exceptions that reading a damaged or foreign file may raise, from the zip down to the fields of the header.
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

# The kinds of files, for the message if a file is of another kind.
_NOUNS = ("tide", "plan")

_Content = TypeVar("_Content")

Read = Callable[[str], bytes]


@dataclass(frozen=True)
class FileFormat:
    """One kind of file: its name, its version, and how to create one."""

    noun: str
    schema_version: int
    made_by: str
    """The commands that write such a file, for error messages."""
    again: str
    """How to replace a file of another version, for error messages."""

    @property
    def name(self) -> str:
        """The name of the format in the header."""
        return f"lowtide {self.noun}"

    @property
    def header(self) -> str:
        """The name of the header's member."""
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
        """Return `rebuild(header, member names, function that reads a member)`."""
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
        """Write a file; raises LowtideError."""
        try:
            Path(path).write_bytes(content)
        except OSError as error:
            raise LowtideError(f"cannot write the {self.noun}: {error.strerror}", given=fspath(path)) from error

    def read(self, path: str | PathLike[str]) -> bytes:
        """Read a file; raises LowtideError."""
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
