"""Corrects a file: its text with all safe fixes in it, checked before it is written."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from lowtide.doctor.check import check_source, find_broken_parts
from lowtide.doctor.fixes import apply_edits, choose_edits
from lowtide.doctor.problem import Edit
from lowtide.doctor.reading.notebook_cells import find_code_cells
from lowtide.doctor.reading.original import Original
from lowtide.doctor.reading.source import FileText, parse_source, read_text
from lowtide.doctor.settings import DoctorSettings
from lowtide.errors import LowtideError

# A fix may make another one possible.
_MOST_PASSES = 10


@dataclass(frozen=True)
class Correction:
    """The new text of a file."""

    path: Path
    before: FileText
    after: str
    count: int
    """How many mistakes are corrected."""

    def diff(self) -> list[str]:
        """Return the lines of a unified diff, with their ends: of the file, or of the changed cells of a notebook."""
        if self.path.suffix != ".ipynb":
            return _diff(str(self.path), self.before.text, self.after)
        pairs = zip(find_code_cells(self.before.text), find_code_cells(self.after), strict=True)
        named = ((f"{self.path}:cell {number}", *pair) for number, pair in enumerate(pairs, 1))
        return [line for name, old, new in named for line in _diff(name, old.text, new.text)]

    def write(self) -> None:
        """Write the file in one step; it keeps its encoding, line ends and permissions."""
        # A link stays a link.
        path = self.path.resolve()
        try:
            if read_text(path) != self.before or not os.access(path, os.W_OK):
                raise LowtideError("the file has changed, or must not be written", given=self.path)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(self.after.encode(self.before.encoding))
                shutil.copymode(path, name)
                with suppress(PermissionError):
                    os.chown(name, path.stat().st_uid, path.stat().st_gid)
                os.replace(name, path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise LowtideError(f"cannot write: {error.strerror}", given=self.path) from error


def correct_file(path: Path, settings: DoctorSettings) -> Correction | None:
    """Return a file with all fixes in it, None if there are none; raises an error if the result would not parse."""
    file = read_text(path)
    text, count = file.text, 0
    for _ in range(_MOST_PASSES):
        corrections = _find_corrections(path, text, settings)
        edits = choose_edits(corrections)
        if not edits:
            break
        changed = apply_edits(text, edits)
        _check_result(path, file, text, changed)
        text, count = changed, count + sum(all(edit in edits for edit in each) for each in corrections)
    return Correction(path, file, text, count) if count else None


def _find_corrections(path: Path, text: str, settings: DoctorSettings) -> list[list[Edit]]:
    """Return the edits of the file for each mistake in it that can be corrected."""
    found = []
    for source in parse_source(path, text):
        original = Original(source, text)
        for mistake in check_source(source, settings.rules):
            edits = [original.locate(edit) for edit in mistake.edits]
            made = [edit for edit in edits if edit is not None]
            if made and len(made) == len(edits) and settings.wants(mistake.code):
                found.append(made)
    return found


def _check_result(path: Path, file: FileText, before: str, after: str) -> None:
    """Refuse a text with parts that do not parse, except for those that did not parse before."""
    try:
        after.encode(file.encoding)
        old, new = (find_broken_parts(parse_source(path, text)) for text in (before, after))
    except UnicodeEncodeError as error:
        raise LowtideError("a fix has characters that the file's encoding lacks", given=path) from error
    if not new <= old:
        raise LowtideError("with its fixes the file would not parse, so it stays as it is", given=path)


def _diff(name: str, before: str, after: str) -> list[str]:
    lines = []
    old, new = (text.replace("\r\n", "\n").split("\n") for text in (before, after))
    for line in unified_diff(_with_ends(old), _with_ends(new), name, name):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return lines


def _with_ends(lines: list[str]) -> list[str]:
    *most, last = lines
    return [*(f"{line}\n" for line in most), *([last] if last else [])]
