"""How far a long operation is: the one type that every stage reports, and the one place that formats it and times."""

from collections.abc import Callable
from dataclasses import dataclass

from lowtide.units import format_count


@dataclass(frozen=True)
class Progress:
    """What is being done, and how much of it is done; `done` and `total` are in any one unit, None if unknown."""

    stage: str
    done: float | None = None
    total: float | None = None
    nodes: int | None = None
    """How many nodes of a graph have been read, while an index is built."""
    left_seconds: float | None = None
    """An estimate of the time until the whole operation is done, not this stage alone; None if unknown."""

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1; None if unknown."""
        return None if self.done is None or not self.total else self.done / self.total

    def __str__(self) -> str:
        """Return the text to show: "searching for a plan: 40%", or "tracing, about 20 s left"."""
        text = self.stage if self.nodes is None else f"{self.stage}, {format_count(self.nodes, 'node')}"
        text = text if self.share is None else f"{text}: {self.share:.0%}"
        return text if self.left_seconds is None else f"{text}, about {format_left(self.left_seconds)}"


def format_left(seconds: float) -> str:
    """Return an estimate as text: "20 s left"; "1 s left" at least, since nothing is done yet."""
    return f"{max(1, round(seconds)):,} s left"


def format_duration(seconds: float) -> str:
    """Return a time that has passed as text: "4.2 s", "3 min 05 s", "2 h 07 min"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"


ProgressCallback = Callable[[Progress], None]
