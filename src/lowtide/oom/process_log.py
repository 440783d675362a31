"""The state of the messages of one process in a log, which other processes may write into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lowtide.oom.devices_at_start import DevicesAtStart
from lowtide.oom.evidence_builder import EvidenceBuilder
from lowtide.oom.refused_requests import RefusedRequests

# For how many lines a failure stays open. A traceback of TensorFlow 1 takes some hundred lines.
_OPEN_LINES = 3000
# The largest distance in lines between an error and the name of its node.
NAME_LINES = 400
# The largest distance in lines between the innermost frame of the program in a traceback and its last line.
_TRACEBACK_LINES = 100


@dataclass
class SharedLog:
    """What the processes that write into one log share."""

    number: int = 0
    """The number of the line that is being read."""
    attentive_until: int = 0
    """Up to this line, names that belong to an earlier message may follow."""
    failures: list[EvidenceBuilder] = field(default_factory=list)
    """The failures that are still open."""


class ProcessLog:
    """What the messages of one process have said so far."""

    def __init__(self, shared: SharedLog, writer: bytes) -> None:
        self.shared = shared
        self.writer = writer
        """The prefix of its lines; b"" if the log has none."""
        self.latest: EvidenceBuilder | None = None
        """The failure that was mentioned last."""
        self.listing: str | None = None
        """Which list of holders is being read: "usage", "histogram" or "buffers"."""
        self.has_failed = False
        self.refusal: RefusedRequests | None = None
        self.frame: tuple[int, str] | None = None
        """The line of the log that named a line of the program last, and that line."""
        self.devices = DevicesAtStart()

    @property
    def number(self) -> int:
        """The number of the line that is being read."""
        return self.shared.number

    def attend(self) -> None:
        """Read the next lines even if they have no word that is about memory."""
        self.shared.attentive_until = self.number + NAME_LINES

    def open(self) -> EvidenceBuilder:
        """Open a failure, which begins on this line."""
        failure = EvidenceBuilder(self.number, self.number, writer=self.writer)
        self.note_refusal(failure)
        failure.devices = self.devices
        self.has_failed = True
        self.shared.failures.append(failure)
        return self.touch(failure)

    def note_refusal(self, failure: EvidenceBuilder) -> None:
        """Add a note to the failure if the driver refused memory before."""
        if self.refusal is not None:
            failure.add_note(
                f"the driver refused {self.refusal.largest_bytes:,} bytes before: another process may hold the "
                "device's memory"
            )
            self.refusal = None

    def touch(self, failure: EvidenceBuilder) -> EvidenceBuilder:
        """Return the failure, which this line mentions."""
        failure.last_line = self.number
        self.latest = failure
        self.listing = None
        self.attend()
        return failure

    def recent(self, *, of_any: bool = False) -> Iterator[EvidenceBuilder]:
        """Yield the failures of this process, or of any, that a message may belong to, the latest first."""
        return (
            failure
            for failure in reversed(self.shared.failures)
            if (of_any or failure.writer == self.writer) and self.number - failure.last_line < _OPEN_LINES
        )

    def traceback_line(self) -> str | None:
        """Return the program's innermost line in the traceback that ends here."""
        if self.frame is None or self.number - self.frame[0] > _TRACEBACK_LINES:
            return None
        return self.frame[1]
