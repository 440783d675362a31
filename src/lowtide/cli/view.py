"""lowtide view PATH...: graphs, tides, plans and training runs in the browser."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lowtide.errors import LowtideError
from lowtide.progress import Progress
from lowtide.units import format_count

if TYPE_CHECKING:
    from rich.progress import Progress as ProgressBar

    from lowtide.view.server.indexes import IndexCallback

SCHEMA_VERSION = 1
_PLURALS = {"file still being read": "files still being read"}
# How long files are read before the server starts, to report an error if there is nothing to show.
_LOOKING_SECONDS = 10.0


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--host", default="127.0.0.1", help="Listen at this address, not only for this machine.")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen at this port; 0 is any that is free.")
@click.option("--json", "as_json", is_flag=True, help="Print the address and the files as one line of JSON.")
def command(paths: tuple[str, ...], host: str, port: int | None, as_json: bool) -> int:
    """Show graphs of any size, tides, plans and training runs in the browser; without TensorFlow.

    PATH is an event file, a SavedModel, a .pb, .pbtxt or .keras file, a .tide, a .plan, the directory of lowtide train,
    or a folder of any of these. The address is printed; open it in a browser. New and changed files are picked up.
    Everyone who can reach the address can see the files below PATH: only this machine, unless --host says otherwise.

    Ends with Ctrl-C. Exits 0; 2 on a usage error, or if there is nothing to show.
    """
    from lowtide.view.server.api import Api
    from lowtide.view.server.app import App, known_hosts
    from lowtide.view.server.background import Background
    from lowtide.view.server.http_server import open_server
    from lowtide.view.server.indexes import Indexes
    from lowtide.view.server.library import open_library

    background = Background()
    try:
        with _shown_progress() as on_progress, _ended_by_signals():
            api = Api(open_library(paths, background), Indexes(background, on_progress))
            with open_server(host, port, App(api, known_hosts(host))) as server:
                found = api.files(_LOOKING_SECONDS)["files"]
                _check_something_is_there(found, paths)
                _greet(server.address, found, as_json=as_json)
                server.serve_forever()
    except KeyboardInterrupt:
        # Ctrl-C is the normal end of this verb.
        return 0
    finally:
        background.close()
    return 0


def _check_something_is_there(files: list[dict[str, Any]], paths: tuple[str, ...]) -> None:
    given = ", ".join(paths)
    if not files:
        cure = "give a folder with event files, SavedModels, graphs, tides, plans or training runs, or one of these"
        raise LowtideError("nothing to show here", given=given, cure=cure)
    if all(file["kind"] == "unreadable" for file in files):
        (note, *_) = (note for file in files for note in file["notes"])
        cure = "give an event file, a SavedModel, a .pb, .pbtxt or .keras file, a tide, a plan or a training run"
        raise LowtideError(f"nothing to show: {note}", given=given, cure=cure)


def _greet(address: str, files: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "address": address, "files": files}))
    else:
        click.echo(f"{_count(files)}: {address}  (Ctrl-C ends it)")
    sys.stdout.flush()


def _count(files: list[dict[str, Any]]) -> str:
    """Return the number of graphs, tides, plans and training runs, in words."""
    counts = {
        "graph": sum(len(file.get("graphs", ())) for file in files),
        "tide": sum(file["kind"] == "tide" for file in files),
        "plan": sum(file["kind"] == "plan" for file in files),
        "training run": sum(file["kind"] == "run" for file in files),
        "file still being read": sum(file["kind"] == "reading" for file in files),
    }
    words = [format_count(count, name, _PLURALS.get(name)) for name, count in counts.items() if count]
    return ", ".join(words) or "no graph yet"


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that the worker process ends too."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _shown_progress() -> Iterator[IndexCallback | None]:
    """Show the progress of indexes on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _IndexBar()
    try:
        yield bar.show
    finally:
        bar.end()


class _IndexBar:
    """A progress bar that is shown only while an index is being built."""

    def __init__(self) -> None:
        self._bar: ProgressBar | None = None

    def show(self, label: str, progress: Progress | None) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as ProgressBar

        if progress is None:
            self.end()
            return
        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
            self._bar = ProgressBar(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task("", total=1.0)
            self._bar.start()
        words = escape(f"{label}: {progress}")
        self._bar.update(self._bar.task_ids[0], description=words, completed=progress.share or 0)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
