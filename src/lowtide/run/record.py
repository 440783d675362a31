"""The folder of a recorded run, written by the recorder in the script's process.

run.json            the calls and their steps, the owners of known addresses, the bytes in use after each step
window-1.xplane.pb  the allocator's events from the start of the process to the end of the second step
window-2.xplane.pb  the allocator's events of some later steps, in its steady state
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError
from lowtide.tide.owner import Owner

SCHEMA_VERSION = 1
TAPE = "gradient tape"
"""The begin of the function name of a step that runs eagerly; the line that opens the tape follows."""
OWN = "_lowtide_"
"""Part of the names of functions that lowtide itself calls in the script's process."""


@dataclass(frozen=True)
class Call:
    """One call of a function of a step; the profile marks its begin with 2 * number and its end with 2 * number + 1."""

    number: int
    step: int
    """Counted from 1; a step may consist of several calls."""
    function: str

    @property
    def begin_mark(self) -> int:
        """The mark at the begin of the call."""
        return 2 * self.number

    @property
    def end_mark(self) -> int:
        """The mark at the end of the call."""
        return 2 * self.number + 1


@dataclass(frozen=True)
class Window:
    """A part of the run in which every event of the allocator was recorded."""

    profile: str
    calls: tuple[Call, ...]
    owners: dict[int, tuple[Owner, ...]]
    """The variables and arguments that Python knew at a mark, with their own bytes; the address may be unknown."""
    eager_ops: tuple[Owner, ...] = ()
    """Op, layer, kind and line of the ops that ran eagerly, by the numbers of their spans in the profile."""

    @property
    def owners_at_last_call(self) -> tuple[Owner, ...]:
        """The owners when the last call began; those that were found later, while it ran, are only some."""
        return self.owners.get(self.calls[-1].begin_mark, ()) if self.calls else ()


@dataclass(frozen=True)
class RunRecord:
    """A recorded run."""

    limit_bytes: int | None
    windows: tuple[Window, ...]
    samples: tuple[tuple[int, int], ...]
    """Bytes in use after each step."""
    steps: int
    notes: tuple[str, ...] = ()


def save_record(record: RunRecord, folder: Path) -> None:
    """Write the record beside its profiles."""
    content = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(record)})
    # The process may die at any moment, so only a complete file replaces the previous one.
    written = folder / "run.json.part"
    written.write_text(content, encoding="utf-8")
    written.replace(folder / "run.json")


def load_record(folder: Path) -> RunRecord | None:
    """Read a record; None if the script never imported TensorFlow."""
    path = folder / "run.json"
    if not path.exists():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    if stored.pop("schema_version") != SCHEMA_VERSION:
        raise LowtideError("the record is from another version of lowtide", given=folder, cure="run the script again")
    windows = tuple(_window(window) for window in stored.pop("windows"))
    return RunRecord(
        **{**stored, "samples": _pairs(stored["samples"]), "notes": tuple(stored["notes"])},
        windows=windows,
    )


def _window(stored: dict[str, Any]) -> Window:
    owners = {int(mark): tuple(map(Owner.from_dict, rows)) for mark, rows in stored["owners"].items()}
    eager_ops = tuple(map(Owner.from_dict, stored["eager_ops"]))
    return Window(stored["profile"], tuple(Call(**call) for call in stored["calls"]), owners, eager_ops)


def _pairs(rows: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(first), int(second)) for first, second in rows)


def report_failure(folder: Path) -> None:
    """Write the current exception to a file: a failing recorder must not change what the script does."""
    with (folder / "recorder-error.txt").open("a", encoding="utf-8") as file:
        traceback.print_exc(file=file)


def read_failure(folder: Path) -> str | None:
    """Return a sentence with the last exception of the recorder; None if it did not fail."""
    path = folder / "recorder-error.txt"
    if not path.exists():
        return None
    return f"the recorder failed, please report this: {path.read_text(encoding='utf-8').strip().splitlines()[-1]}"
