"""What a run left behind, read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowtide.run.launch import Ending
    from lowtide.tide.tide import Tide


@dataclass(frozen=True)
class Outcome:
    """The tide of a steady step of a run, and what it ran short of; `problem` says why there is no tide."""

    tide: Tide | None
    predicted: Tide | None
    shortages: tuple[Any, ...]
    problem: str | None


def read_outcome(folder: Path, ending: Ending, target: str) -> Outcome:
    """Return what the files in `folder` say about a run."""
    return Outcome(None, None, (), "nothing was recorded")
