"""The folder of a recorded run: what the recorder in the script's process writes, and anybody can read.

run.json          which calls were made, which step each belongs to, who lives where, bytes after each step
window-1.xplane.pb  the allocator's events from the start of the process to the end of the second step
window-2.xplane.pb  those of some later steps, when the allocator has settled
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError

SCHEMA_VERSION = 1
TAPE = "gradient tape"
"""What a step is called that runs op by op."""
OWN = "_lowtide_"
"""In the names of functions that lowtide itself calls in the script's process."""
NOWHERE_KNOWN = 0
"""The address of a variable that is in the allocator, nobody can say where."""


@dataclass(frozen=True)
class Call:
    """One call of a step's function, or of one of several; marked in the profile by 2 * number, and + 1 at its end."""

    number: int
    step: int
    """Counted from 1; several calls may make one step."""
    function: str

    @property
    def begin_mark(self) -> int:
        return 2 * self.number

    @property
    def end_mark(self) -> int:
        return 2 * self.number + 1


@dataclass(frozen=True)
class Place:
    """Whose memory an address is, as Python knew it when a call began."""

    address: int
    bytes: int
    name: str
    kind: str
    layer: str | None
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """A stretch of the run in which every event of the allocator was recorded."""

    profile: str
    calls: tuple[Call, ...]
    places: dict[int, tuple[Place, ...]]
    """By the mark at which they were looked up."""


@dataclass(frozen=True)
class Record:
    """A recorded run."""

    limit_bytes: int | None
    windows: tuple[Window, ...]
    samples: tuple[tuple[int, int], ...]
    """Bytes in use after each step."""
    steps: int
    notes: tuple[str, ...] = ()


def save_record(record: Record, folder: Path) -> None:
    """Write the record; the profiles are there already."""
    content = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(record)})
    # A process may die at any moment: what was there before is replaced only by what is whole.
    written = folder / "run.json.part"
    written.write_text(content, encoding="utf-8")
    written.replace(folder / "run.json")


def load_record(folder: Path) -> Record | None:
    """Read a record; None where the script never got as far as TensorFlow."""
    path = folder / "run.json"
    if not path.exists():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    if stored.pop("schema_version") != SCHEMA_VERSION:
        raise LowtideError("a record of another version of lowtide", given=folder, cure="run the script again")
    windows = tuple(_window(window) for window in stored.pop("windows"))
    return Record(
        **{**stored, "samples": _pairs(stored["samples"]), "notes": tuple(stored["notes"])},
        windows=windows,
    )


def _window(stored: dict[str, Any]) -> Window:
    places = {
        int(mark): tuple(Place(**{**place, "shape": tuple(place["shape"])}) for place in rows)
        for mark, rows in stored["places"].items()
    }
    return Window(stored["profile"], tuple(Call(**call) for call in stored["calls"]), places)


def _pairs(rows: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(first), int(second)) for first, second in rows)


def report_failure(folder: Path) -> None:
    """A recorder that fails must not change what the script does; it leaves a note of the current exception."""
    with (folder / "recorder-error.txt").open("a", encoding="utf-8") as file:
        traceback.print_exc(file=file)
