"""How far a long operation is: the one type that every stage reports, and the one place that formats it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """What is being done, and how much of it is done; `done` and `total` are in any one unit, None if unknown."""

    stage: str
    done: float | None = None
    total: float | None = None
    nodes: int | None = None
    """How many nodes of a graph have been read, while an index is built."""

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1; None if unknown."""
        return None if self.done is None or not self.total else self.done / self.total

    def __str__(self) -> str:
        """Return the text to show: "searching for a plan: 40%"."""
        text = self.stage if self.nodes is None else f"{self.stage}, {self.nodes:,} nodes"
        return text if self.share is None else f"{text}: {self.share:.0%}"


ProgressCallback = Callable[[Progress], None]
