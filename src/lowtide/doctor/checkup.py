"""Checks many files, in several processes where that is faster."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lowtide.doctor.check import check_source, unreadable
from lowtide.doctor.problem import FileRegion, Mistake, Replacement
from lowtide.doctor.reading.original import Original
from lowtide.doctor.reading.source import FileText, decode, parse_source
from lowtide.doctor.settings import DoctorSettings
from lowtide.errors import LowtideError

# A process takes about 0.2 s to start, in which this many bytes are checked.
_BYTES_FOR_A_PROCESS = 1 << 20
_FILES_AT_ONCE = 8
# Larger files are generated, not written by hand, and take minutes to read.
_LARGEST_BYTES = 256 << 20

Task = tuple[Path, DoctorSettings]


@dataclass(frozen=True)
class Checkup:
    """What was checked, and what was found, by file and line."""

    files: tuple[Path, ...]
    mistakes: tuple[Mistake, ...]

    @property
    def fixable(self) -> int:
        """How many of the mistakes --fix can correct."""
        return sum(each.is_fixable for each in self.mistakes)


def check_files(tasks: Sequence[Task], on_done: Callable[[int], None] = lambda done: None) -> Checkup:
    """Check each file with its settings; `on_done` is called with the number of files that are done."""
    found: dict[int, list[Mistake]] = {}
    for number, mistakes in _check_all(tasks):
        found[number] = mistakes
        on_done(len(found))
    in_order = [mistake for number in range(len(tasks)) for mistake in found[number]]
    return Checkup(tuple(path for path, _ in tasks), tuple(in_order))


def check_path(path: Path, settings: DoctorSettings) -> list[Mistake]:
    """Return the mistakes in a file; one of code LT000 if it cannot be read."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            found = [unreadable(path, f"the file is larger than {_LARGEST_BYTES >> 20} MiB, and was not read")]
        else:
            return check_content(path, path.read_bytes(), settings)
    except OSError as error:
        found = [unreadable(path, f"the file cannot be read: {error.strerror}")]
    return [each for each in found if settings.wants(each.code)]


def check_content(path: Path, content: bytes, settings: DoctorSettings) -> list[Mistake]:
    """Return the mistakes in the content of a file of this name; one of code LT000 if it is not code."""
    try:
        return check_text(path, decode(content, path), settings)
    except LowtideError as error:
        found = [unreadable(path, error.problem, error.cure)]
    except Exception as error:
        # One strange file must not keep the others from being checked.
        what = f"lowtide failed on this file, which is a mistake of lowtide: {type(error).__name__}: {error}"
        found = [unreadable(path, " ".join(what.split()), "report it, and exclude the file until then")]
    return [each for each in found if settings.wants(each.code)]


def check_text(path: Path, file: FileText, settings: DoctorSettings) -> list[Mistake]:
    """Return the mistakes in the text of a file, with their places in it."""
    found = []
    for source in parse_source(path, file.text):
        mistakes = [each for each in check_source(source, settings.rules) if settings.wants(each.code)]
        if mistakes:
            original = Original(source, file.text)
            found += [_locate(each, original) for each in mistakes]
    return found


def _locate(mistake: Mistake, original: Original) -> Mistake:
    """Add where a mistake is in the file. Edits that cannot be made there are left out."""
    begin = original.find(mistake.cell, mistake.line, mistake.column)
    end = original.find(mistake.cell, mistake.end_line, mistake.end_column)
    region: FileRegion | None = None
    if begin is not None:
        region = original.region((begin, begin if end is None else max(begin, end)))
    edits = [original.locate(edit) for edit in mistake.edits]
    made = tuple(Replacement(original.region(each.span), each.text) for each in edits if each is not None)
    if len(made) < len(edits):
        return replace(mistake, region=region, edits=())
    return replace(mistake, region=region, replacements=made)


# -- processes -------------------------------------------------------------------------------------------------------


def _check_all(tasks: Sequence[Task]) -> Iterator[tuple[int, list[Mistake]]]:
    """Yield the number of each task and what was found, in any order."""
    count = _count_processes([path for path, _ in tasks])
    if count == 1:
        for number, (path, settings) in enumerate(tasks):
            yield number, check_path(path, settings)
        return
    # Late, because a few files are checked in less time than these take to import.
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # A forked child would share the threads' locks of this process, which may draw a bar at this moment.
    pool = ProcessPoolExecutor(count, get_context("spawn"), _begin_process)
    try:
        begins = range(0, len(tasks), _FILES_AT_ONCE)
        batches = [range(begin, min(begin + _FILES_AT_ONCE, len(tasks))) for begin in begins]
        futures = {pool.submit(_check_batch, [tasks[number] for number in batch]): batch for batch in batches}
        for future in as_completed(futures):
            yield from zip(futures[future], future.result(), strict=True)
    except BrokenProcessPool as error:
        cure = "check fewer files at once; if memory ran out, that is why"
        raise LowtideError("a process that was checking files was killed", cure=cure) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _check_batch(tasks: Sequence[Task]) -> list[list[Mistake]]:
    return [check_path(path, settings) for path, settings in tasks]


def _begin_process() -> None:
    # Ctrl-C ends the command, which ends its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _count_processes(paths: Sequence[Path]) -> int:
    # Notebooks are mostly outputs, which cost little to read.
    size = sum(_size(path) // (10 if path.suffix == ".ipynb" else 1) for path in paths)
    return max(1, min(len(os.sched_getaffinity(0)), size // _BYTES_FOR_A_PROCESS))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
