"""Reads a log of any length, line by line, and finds each allocation failure.

A log reports one failure several times: the allocator names the request and dumps its blocks, the kernel names the
tensor, and Python prints the exception twice. Old versions dump first and give the reason afterwards, and two threads
may fail together. So the last few failures stay open, and each line is added to the one that it matches. The lines of
several processes that write into one log are told apart by their prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lowtide.oom import log_patterns as patterns
from lowtide.oom.evidence import Evidence
from lowtide.oom.log_lines import split_line
from lowtide.oom.process_log import ProcessLog, SharedLog
from lowtide.oom.process_reader import ProcessReader

# How many failures of each process stay open at once.
_OPEN_FAILURES = 8
# How many processes that write into one log are told apart.
_MOST_WRITERS = 64


def read_log_evidence(lines: Iterable[bytes]) -> Iterator[Evidence]:
    """Yield the evidence of each failure in the order of the log, in bounded memory."""
    log = _Log()
    has_word = patterns.WORDS.search
    for number, line in enumerate(lines, start=1):
        if has_word(line) or number < log.shared.attentive_until:
            log.shared.number = number
            log.read(line)
            while len(log.shared.failures) > _OPEN_FAILURES * len(log.readers):
                yield log.shared.failures.pop(0).build()
    yield from log.rest()


class _Log:
    """The readers of the processes that write into one log."""

    def __init__(self) -> None:
        self.shared = SharedLog()
        self.readers: dict[bytes, ProcessReader] = {}

    def read(self, line: bytes) -> None:
        """Read the messages of one line."""
        for writer, message in split_line(line):
            if writer not in self.readers and len(self.readers) >= _MOST_WRITERS:
                writer = b""
            reader = self.readers.get(writer)
            if reader is None:
                reader = self.readers[writer] = ProcessReader(ProcessLog(self.shared, writer))
            reader.read(message, patterns.WORDS.search(message) is not None)

    def rest(self) -> Iterator[Evidence]:
        """Yield the evidence of the failures that are still open at the end of the log."""
        left = [failure.build() for failure in self.shared.failures]
        refused = (reader.outside.build_refusal() for reader in self.readers.values())
        left += [evidence for evidence in refused if evidence is not None]
        yield from sorted(left, key=lambda evidence: evidence.line or 0)
