"""lowtide explain train.log: explains each out-of-memory error in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zipfile import BadZipFile, ZipFile

from lowtide.errors import LowtideError
from lowtide.units import format_count

if TYPE_CHECKING:
    from rich.console import Console

    from lowtide.oom.evidence import Evidence
    from lowtide.oom.shortage import Shortage

_BLOCK = 1 << 20
# How many errors are explained; a program that retries can fill a log with them.
_MOST_FAILURES = 200

_LOOKED_FOR = (
    'looked for "ran out of memory trying to allocate", "OOM when allocating tensor", the allocator\'s dump, '
    '"Out of memory while trying to allocate", and messages of the driver, the kernel and schedulers'
)


_NO_LIBRARY = (
    "a library of CUDA was not initialized: the GPU was full, which nvidia-smi shows, or the versions of the driver, "
    "CUDA and cuDNN do not match"
)
_CRASHED = "the program crashed without a reason: if it was memory, lowtide run train.py says so"
# What a log may say that memory is one explanation of, and what to do then.
_HINTS = {
    b"_STATUS_NOT_INITIALIZED": _NO_LIBRARY,
    b"handle: the library was not initialized": _NO_LIBRARY,
    b"handle: CUDNN_STATUS_INTERNAL_ERROR": _NO_LIBRARY,
    b"from device: CUDA_ERROR_OUT_OF_MEMORY": "the driver refused memory once, but training went on: TensorFlow then "
    "asks for less",
    b"appears to have died": "a notebook's kernel died: if it was memory, lowtide run train.py says so of a script",
    b"egmentation fault": _CRASHED,
    b"SIGSEGV": _CRASHED,
    b"0xC0000005": _CRASHED,
}


def is_log(file: Path) -> bool:
    """Whether a file is neither a tide nor a plan, which are zip files, by its name and its content."""
    if str(file) == "-":
        return True
    if file.suffix in (".tide", ".plan"):
        return False
    if file.suffix in (".keras", ".h5") and file.is_file():
        raise LowtideError(
            "neither a tide nor a log: it is a model",
            given=file,
            cure=f"lowtide predict {file} says what a training step of it takes",
        )
    try:
        with file.open("rb") as stream:
            return stream.read(4) != b"PK\x03\x04" or _is_other_archive(file)
    except OSError as error:
        near = get_close_matches(file.name, [each.name for each in file.parent.glob("*") if each.is_file()], n=1)
        cure = f"did you mean {file.with_name(near[0])}?" if near else "give a .tide or .plan file, or a log"
        raise LowtideError(f"cannot read: {error.strerror}", given=file, cure=cure) from error


def _is_other_archive(file: Path) -> bool:
    """Whether a zip file holds neither a tide nor a plan."""
    try:
        with ZipFile(file) as archive:
            return not {"tide.json", "plan.json"} & set(archive.namelist())
    except (BadZipFile, NotImplementedError):
        return False


def explain_log(file: Path, top: int, *, as_json: bool, html: Path | None) -> int:
    """Explain each out-of-memory error in a log, and return the exit code: 1, for problems found."""
    from lowtide.oom.code_mistakes import name_mistakes_of_log
    from lowtide.oom.evidence import guess_batch_size
    from lowtide.oom.shortage import explain_evidence

    log = _OomLog("standard input" if str(file) == "-" else str(file))
    log.read(file)
    if not log.evidence:
        raise LowtideError(
            f"no message in this log, {format_count(log.lines, 'line')}, says that memory ran out",
            given=log.name,
            cure=log.what_else(),
        )
    batch_size = guess_batch_size(evidence.request for evidence in log.evidence)
    explained = (explain_evidence(replace(each, batch_size=batch_size), log.name) for each in log.evidence)
    shortages = [name_mistakes_of_log(each, file) for each in explained]
    _emit(shortages, log, top, as_json=as_json, html=html)
    return 1


class _OomLog:
    """The out-of-memory errors in a log, and what is needed to explain that there are none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines = 0
        self.evidence: list[Evidence] = []
        self.hints: list[bytes] = []
        """The keys of `_HINTS` that a line contains."""
        self.left_out = 0

    def what_else(self) -> str:
        """Return what to do with a log that does not say that memory ran out."""
        if not self.lines:
            return "it is empty: give a log with the standard error of TensorFlow"
        return "; ".join([*dict.fromkeys(_HINTS[words] for words in self.hints), _LOOKED_FOR])

    def read(self, file: Path) -> None:
        """Read the whole log, and keep its out-of-memory errors."""
        from lowtide.oom.log_reader import read_log_evidence

        for evidence in read_log_evidence(self._lines(file)):
            if len(self.evidence) < _MOST_FAILURES:
                self.evidence.append(evidence)
            else:
                self.left_out += 1

    def _lines(self, file: Path) -> Iterator[bytes]:
        from lowtide.oom.log_file import read_log_lines

        try:
            if str(file) == "-":
                yield from self._count(read_log_lines(_blocks(sys.stdin.buffer, None), self.name))
                return
            with file.open("rb") as stream:
                yield from self._count(read_log_lines(_blocks(stream, file.stat().st_size), self.name))
        except OSError as error:
            raise LowtideError(f"cannot read: {error.strerror}", given=self.name) from error

    def _count(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        missing = dict.fromkeys(_HINTS)
        for line in lines:
            self.lines += 1
            for words in missing:
                if words in line:
                    self.hints.append(words)
                    missing.pop(words)
                    break
            yield line


def _blocks(stream: BinaryIO, size: int | None) -> Iterator[bytes]:
    with _progress(size) as advance:
        while block := stream.read(_BLOCK):
            yield block
            advance(len(block))


@contextmanager
def _progress(size: int | None) -> Iterator[Callable[[int], None]]:
    """Show on standard error how much has been read, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(binary_units=True), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=size)
        yield lambda count: bar.advance(task, count)


def _emit(shortages: list[Shortage], log: _OomLog, top: int, *, as_json: bool, html: Path | None) -> None:
    from lowtide.cli.output import emit
    from lowtide.view.html_page import render_html
    from lowtide.view.page_data.shortage import shortage_data
    from lowtide.view.terminal.shortage import TerminalShortage

    def data() -> dict[str, Any]:
        return {
            "schema_version": 1,
            "target": log.name,
            "lines": log.lines,
            "left_out": log.left_out,
            "shortages": [shortage.to_dict(top=top) for shortage in shortages],
        }

    def show(console: Console) -> None:
        for number, shortage in enumerate(shortages, start=1):
            if len(shortages) > 1:
                console.rule(f"{number} of {len(shortages)}", style="dim")
            console.print(TerminalShortage(shortage, top=top))
        if log.left_out:
            console.print(f"  and {log.left_out:,} more", style="dim")

    emit(data, show, [(html, lambda: render_html("shortage", shortage_data(shortages)))], as_json=as_json)
