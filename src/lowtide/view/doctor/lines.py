"""The lines of text about a checkup that several views share."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from lowtide.doctor.checkup import Checkup
from lowtide.units import format_count

_KINDS = {".ipynb": "notebook", ".md": "Markdown file"}


def summary_line(checkup: Checkup, arguments: Sequence[str]) -> str:
    """Return how many problems there are, and how to correct those that can be corrected."""
    if not checkup.mistakes:
        return f"no problems in {describe_files(checkup.files)}"
    files = len({each.path for each in checkup.mistakes})
    line = f"{format_count(len(checkup.mistakes), 'problem')} in {format_count(files, 'file')}"
    if not checkup.fixable:
        return line
    return f"{line}, {checkup.fixable:,} fixable: {shlex.join(['lowtide', 'doctor', '--fix', *arguments])}"


def describe_files(files: Sequence[Path]) -> str:
    """Return how many files of each kind there are: "10 Python files and 2 notebooks"."""
    counts = Counter(_KINDS.get(path.suffix, "Python file") for path in files)
    parts = [format_count(counts[kind], kind) for kind in ("Python file", *_KINDS.values()) if counts[kind]]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
