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


# Judged by hand: all code blocks of the articles.
MISTAKES = (
    Wrong("000", 72, "functions that TensorFlow 2 does not have", "LT505"),
    Wrong("001", 27, "5,000 layers are made and run on a tensor of numbers", "LT506"),
    Wrong("001", 54, "the whole data set becomes a constant", "LT103"),
    Wrong("001", 60, "from_tensor_slices copies the same array of 38 MiB; too small for the rule", None),
    Wrong("001", 90, "the model is called on all rows as one batch", "LT507"),
    Wrong("002", 69, "pruning refuses the models of Keras 3", "LT505"),
    Wrong("003", 32, "from_tensor_slices copies an array of 469 MiB", "LT101"),
    Wrong("004", 56, "accumulated gradients are zeroed in every step", "LT402"),
)


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
        cells.append((each.article, str(each.line), each.what, each.code or "none", said))
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
