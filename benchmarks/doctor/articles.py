"""The code of the five articles: what is really wrong with its memory, and what the doctor says."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.report import Bar, Section
from lowtide.doctor.check import check_file
from lowtide.doctor.problem import Mistake


@dataclass(frozen=True)
class Wrong:
    """A real mistake in an article, or a line that is said to be one and is not."""

    article: str
    """How the name of its file begins."""
    line: int
    what: str
    code: str | None
    """The rule that should find it; None if reading the code cannot show it."""


# Judged by hand: all code blocks of the articles, before the rules existed.
MISTAKES: tuple[Wrong, ...] = ()


def check_articles(folder: Path) -> dict[str, list[Mistake]]:
    """What the doctor finds in each article, read as Markdown; lines are those of the file."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for path in sorted(folder.glob("*.txt")):
            copy = Path(name) / f"{path.stem}.md"
            copy.write_bytes(path.read_bytes())
            found[path.stem] = check_file(copy)
    return found


def measure_articles(folder: Path) -> Section:
    found = check_articles(folder)
    cells: list[Sequence[str]] = []
    expected = set()
    for each in MISTAKES:
        name = next((name for name in found if name.startswith(each.article)), "")
        seen = [mistake for mistake in found.get(name, ()) if (mistake.code, mistake.line) == (each.code, each.line)]
        expected |= {(name, mistake.code, mistake.line) for mistake in seen}
        said = "found" if seen else "n/a" if each.code is None else "**missed**"
        cells.append((each.article, str(each.line), each.what, each.code or "cannot be read from the code", said))
    others = [
        (name, mistake)
        for name, mistakes in found.items()
        for mistake in mistakes
        if (name, mistake.code, mistake.line) not in expected
    ]
    cells += [(name[:3], str(each.line), "no mistake", each.code, "**false alarm**") for name, each in others]
    missed = sum(row[-1] == "**missed**" for row in cells)
    wanted = sum(each.code is not None for each in MISTAKES)
    bars = [
        Bar(
            "articles: every real memory mistake is found", f"{wanted - missed} of {wanted}", bool(found) and not missed
        ),
        Bar("articles: nothing else is found", str(len(others)), not others),
    ]
    return Section("Articles", ("article", "line", "mistake", "rule", "doctor"), cells, bars)
