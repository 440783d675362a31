"""Verdicts on findings in public code, judged by hand: a line of a table for each, without the code itself."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

FILE = Path(__file__).parent / "verdicts.tsv"
RIGHT, WRONG = "right", "wrong"


@dataclass(frozen=True, order=True)
class Verdict:
    """Whether a finding is right: would an expert agree that this code costs memory, or is wrong, for that reason?"""

    repository: str
    path: str
    code: str
    digest: str
    """Of the lines on which the finding is, so that it is known again when other lines have changed."""
    verdict: str
    why: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.repository, self.path, self.code, self.digest


def digest(lines: Iterable[str]) -> str:
    """Twelve hexadecimal digits that stand for lines of code, whatever their indentation."""
    text = "\n".join(line.strip() for line in lines)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_verdicts(path: Path = FILE) -> dict[tuple[str, str, str, str], Verdict]:
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    found = [Verdict(*row) for row in rows]
    wrong = [each for each in found if each.verdict not in (RIGHT, WRONG)]
    if wrong:
        raise ValueError(f"{path}: a verdict is {RIGHT} or {WRONG}: {wrong[0]}")
    return {each.key: each for each in found}


def write_verdicts(verdicts: Iterable[Verdict], path: Path = FILE) -> None:
    lines = ["\t".join(field.name for field in fields(Verdict))]
    lines += ["\t".join(astuple(each)) for each in sorted(verdicts)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
