"""Public code: crashes, seconds, and the findings with verdicts judged by hand."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from benchmarks.common.report import Bar, Section, percent
from benchmarks.doctor.verdicts import RIGHT, WRONG, Verdict, digest, read_verdicts
from lowtide.doctor.check import UNREADABLE, check_source
from lowtide.doctor.problem import Mistake
from lowtide.doctor.reading.source import Code, read_source
from lowtide.doctor.rules import all_rules
from lowtide.errors import LowtideError

# What of a repository is read; all Python files and notebooks of the others.
PATTERNS = {"keras-team/keras-io": ("examples/**/*.py",), "tensorflow/docs": ("site/en/**/*.ipynb",)}
EVERYTHING = ("**/*.py", "**/*.ipynb")
# How many the issue counts, of those that train.
AT_LEAST = {"keras-team/keras-io": 194, "tensorflow/docs": 117}
MOST_WRONG = 0.1


@dataclass(frozen=True)
class Finding:
    """A mistake in public code, as far as it may be published."""

    repository: str
    path: str
    code: str
    cell: int | None
    line: int
    digest: str
    message: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.repository, self.path, self.code, self.digest


@dataclass(frozen=True)
class Checked:
    """One file: what was found, or how the doctor failed."""

    repository: str
    path: str
    seconds: float
    findings: tuple[Finding, ...] = ()
    is_readable: bool = True
    crash: str | None = None


def repositories(folder: Path) -> dict[str, Path]:
    """The repositories in a folder: each is a folder named OWNER+NAME."""
    return {each.name.replace("+", "/", 1): each for each in sorted(folder.iterdir()) if "+" in each.name}


def files_of(repository: str, root: Path) -> list[Path]:
    found = {path for pattern in PATTERNS.get(repository, EVERYTHING) for path in root.glob(pattern)}
    return sorted(path for path in found if path.is_file())


def check_one(task: tuple[str, Path, Path]) -> Checked:
    repository, root, path = task
    name = path.relative_to(root).as_posix()
    began = time.perf_counter()
    try:
        pairs = [(source, each) for source in _read(path) for each in check_source(source)]
    except Exception:
        return Checked(repository, name, time.perf_counter() - began, crash=traceback.format_exc().splitlines()[-1])
    seconds = time.perf_counter() - began
    findings = tuple(_finding(repository, name, *pair) for pair in pairs if pair[1].code != UNREADABLE)
    return Checked(repository, name, seconds, findings, len(findings) == len(pairs))


def _read(path: Path) -> Sequence[Code]:
    try:
        return read_source(path)
    except LowtideError:
        return ()


def _finding(repository: str, path: str, source: Code, mistake: Mistake) -> Finding:
    lines = source.text.split("\n")
    begin = mistake.line - 1
    if mistake.cell is not None:
        begin += source.cells[mistake.cell - 1].first_line - 1
    end = begin + mistake.end_line - mistake.line + 1
    marked = digest(lines[begin:end])
    return Finding(repository, path, mistake.code, mistake.cell, mistake.line, marked, mistake.message)


def check_all(folder: Path, processes: int = 2) -> list[Checked]:
    tasks = [
        (repository, root, path)
        for repository, root in repositories(folder).items()
        for path in files_of(repository, root)
    ]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        return list(pool.map(check_one, tasks, chunksize=16))


def measure_real(folder: Path) -> list[Section]:
    checked = check_all(folder)
    verdicts = read_verdicts()
    return [_repositories_section(checked, verdicts), _rules_section(checked, verdicts)]


def _judged(findings: Sequence[Finding], verdicts: dict[tuple[str, str, str, str], Verdict]) -> list[str]:
    """How many findings there are, are right, are wrong, and are not judged."""
    found = Counter(verdicts[each.key].verdict if each.key in verdicts else "" for each in findings)
    return [str(each) for each in (len(findings), found[RIGHT], found[WRONG], found[""])]


def _repositories_section(checked: Sequence[Checked], verdicts: dict[tuple[str, str, str, str], Verdict]) -> Section:
    cells, bars = [], []
    for repository in sorted({each.repository for each in checked}):
        files = [each for each in checked if each.repository == repository]
        findings = [finding for each in files for finding in each.findings]
        unread = sum(not each.is_readable for each in files)
        crashes = sum(each.crash is not None for each in files)
        seconds = sum(each.seconds for each in files)
        counts = [str(each) for each in (len(files), unread, crashes)]
        cells.append([repository, *counts, f"{seconds:.1f}", *_judged(findings, verdicts)])
        if repository in AT_LEAST:
            fits = len(files) >= AT_LEAST[repository]
            bars.append(Bar(f"{repository}: at least {AT_LEAST[repository]} files", str(len(files)), fits))
    findings = [finding for each in checked for finding in each.findings]
    crashes = [each for each in checked if each.crash is not None]
    bars.append(Bar("no crash", f"{len(crashes)} in {len(checked):,} files", not crashes))
    bars += _verdict_bars(findings, verdicts)
    columns = (
        "repository", "files", "do not parse", "crashes", "seconds, one process", "findings", "right", "wrong",
        "not judged",
    )  # fmt: skip
    notes = [f"{each.repository} {each.path}: {each.crash}" for each in crashes[:10]]
    return Section("Public code", columns, cells, bars, notes)


def _verdict_bars(findings: Sequence[Finding], verdicts: dict[tuple[str, str, str, str], Verdict]) -> Iterator[Bar]:
    # A repository may have the same code several times.
    different = list({(each.repository, each.code, each.digest): each for each in findings}.values())
    for chosen, which in ((findings, "findings"), (different, "different findings, copies left out,")):
        _, right, wrong, _ = (int(each) for each in _judged(chosen, verdicts))
        share = wrong / (right + wrong) if right + wrong else None
        words = f"at most {percent(MOST_WRONG)} of the {which} are wrong"
        seen = f"{percent(share, digits=1)}: {wrong} of {right + wrong}"
        yield Bar(words, seen, share is not None and share <= MOST_WRONG)
    unknown = int(_judged(findings, verdicts)[-1])
    yield Bar("every finding is judged", f"{unknown} are not", not unknown)


def _rules_section(checked: Sequence[Checked], verdicts: dict[tuple[str, str, str, str], Verdict]) -> Section:
    findings = [finding for each in checked for finding in each.findings]
    cells = []
    for rule in all_rules():
        of_rule = [each for each in findings if each.code == rule.code]
        where = len({each.repository for each in of_rule})
        cells.append([rule.code, rule.name, str(where), *_judged(of_rule, verdicts)])
    columns = ("rule", "name", "repositories", "findings", "right", "wrong", "not judged")
    return Section("Findings in public code, by rule", columns, cells)


def findings_markdown(folder: Path) -> str:
    """All findings with their verdicts."""
    verdicts = read_verdicts()
    lines = ["# Findings in public code", "", "| where | rule | verdict | why |", "|---|---|---|---|"]
    for checked in check_all(folder):
        for each in checked.findings:
            cell = "" if each.cell is None else f", cell {each.cell}"
            known = verdicts.get(each.key)
            said = (known.verdict, known.why) if known else ("not judged", "")
            lines.append(
                f"| {each.repository}: {each.path}{cell}, line {each.line} | {each.code} | {' | '.join(said)} |"
            )
    return "\n".join(lines) + "\n"
