"""Removes the allocator's dump, which may have hundreds of thousands of lines, from a script's output.

TensorFlow's messages about the profiler that lowtide turns on and off are removed too, and so are the messages that the
script has silenced with TF_CPP_MIN_LOG_LEVEL: lowtide makes TensorFlow write them, because it reads them.
"""

from __future__ import annotations

import re
from enum import Enum, auto

# "I0000 00:00:1794776553.280574   18026 bfc_allocator.cc:1056] " and
# "2025-11-06 08:55:24.921743: I external/local_xla/xla/tsl/framework/bfc_allocator.cc:1049] ".
_HEADERS = (rb"[IWEF]\d\d\d\d \d\d:\d\d:\d+\.\d+ +\d+", rb"\d\d\d\d-\d\d-\d\d [\d:]+\.\d+: [IWEF]")
_MARKS = (b"bfc_allocator.cc", b"profiler_session.cc", b"save_profile.cc")
_RECORD = re.compile(
    b"(?:"
    + b"|".join(_HEADERS)
    + rb") [^\s\]]*(?:bfc_allocator|(?P<profiler>profiler_session|save_profile))\.cc:\d+\] "
)
# Any message of TensorFlow, with its severity.
_MESSAGE = re.compile(
    rb"(?:(?P<new>[IWEF])\d\d\d\d \d\d:\d\d:\d+\.\d+ +\d+|\d\d\d\d-\d\d-\d\d [\d:]+\.\d+: (?P<old>[IWEF]))"
    rb" [^\s\]]*:\d+\] "
)
# The logging library writes this line before the first message.
_PREAMBLE = b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"


def _prefixes_of(pattern: bytes) -> bytes:
    """Return a pattern that matches every prefix of a text that a sequence of characters and classes matches."""
    prefixes = b""
    for piece in reversed(re.findall(rb"(?:\[(?:\\.|[^\]\\])*\]|\\.|.)\+?", pattern)):
        prefixes = piece + (b"(?:" + prefixes + b")?" if prefixes else b"")
    return prefixes


# The end of the data may be the beginning of such a line.
_MAY_BEGIN = re.compile(
    b"(?:" + b"|".join(_prefixes_of(header + rb" [^\s\]]+\] [^\n\r]+") for header in _HEADERS) + rb")\Z"
)
_DUMP = re.compile(
    rb"BFCAllocator dump for |Bin \(\d+\): |Bin for |  Size: |Next region of size |(?:InUse|Free |Chunk) at "
    rb"|     Summary of in-use Chunks|\d+ Chunks of size |Sum Total of in-use chunks|Total size in pool: "
    rb"|total_region_allocated_bytes_: |Stats: |[*x_]+\s*\Z|<allocator contains no memory>"
)
REFUSAL = re.compile(rb"Allocator \(.*\) ran out of memory trying to allocate .*\(rounded to \d+\)")
"""What the allocator says of a request that it has refused."""
_ADVICE = re.compile(rb"If the cause is memory fragmentation |Current allocation summary follows\.")
_STATISTIC = re.compile(rb"[A-Z][A-Za-z]+: +-?\d[\d.]*(?:B|[KMGTPE]iB)?\s*\Z")
# Lines without a header that belong to the message before them: the node of a failed op, and TensorFlow's hint.
_DETAIL = re.compile(rb"\s+\[\[\{\{node |Hint: If you want to see a list of allocated tensors when OOM happens")
# A message that ends with a protocol buffer as text, which an empty line ends; this word precedes it.
_BEFORE_PROTOCOL_BUFFER = b"goo.gle/debug"
_FIELD = re.compile(rb"\s*(?:\w+: .*|\w+ \{|\})?\s*\Z")
_LONGEST_WAIT_BYTES = 1 << 16


class _Continuation(Enum):
    """The kind of lines without a header that may follow and belong to the message before them."""

    NOTHING = auto()
    FAILURE = auto()
    STATISTICS = auto()
    SILENCED = auto()
    FIELDS = auto()


class DumpFilter:
    """Takes data as it arrives and returns the part to be shown, unchanged and in order."""

    def __init__(self) -> None:
        self.silenced = b""
        """The severities of the messages that the script does not want to see, such as "WE"."""
        self._preamble = b""
        """The line before the first message; it is shown with that message."""
        self._waiting = b""
        """The beginning of a line that may belong to a dump."""
        self._released = 0
        """The number of waiting bytes that were shown because nothing followed for a while."""
        self._continuation = _Continuation.NOTHING

    @property
    def is_waiting(self) -> bool:
        """Whether data is held back that `release` would return."""
        return self._released < len(self._waiting) or bool(self._preamble)

    def filter(self, data: bytes) -> bytes:
        """Return what can be shown after `data` has arrived."""
        data = self._waiting + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        whole, rest = data[:end], data[end:]
        lines = (
            whole.splitlines(keepends=True)
            if self.silenced or any(mark in whole for mark in _MARKS) or self._continuation is not _Continuation.NOTHING
            else [whole]
        )
        shown = [self._take(line) for line in lines if line]
        waits_from = self._find_wait(rest)
        self._waiting = rest[waits_from:]
        shown.append(rest[min(self._released, waits_from) : waits_from])
        self._released = max(self._released - waits_from, 0)
        return b"".join(shown)

    def release(self) -> bytes:
        """Return the data that is held back; its writer stopped in the middle of a line."""
        shown = self._preamble + self._waiting[self._released :]
        self._preamble = b""
        self._released = len(self._waiting)
        return shown

    def _take(self, line: bytes) -> bytes:
        shown = self._filter_line(line)
        if self._released:
            # If a part of a removed line was shown already, its line end must be shown too.
            shown = shown[self._released :] if shown else line[-1:]
            self._released = 0
        return shown

    def _filter_line(self, line: bytes) -> bytes:
        """Return the part of a complete line that is shown."""
        if self.silenced and line.startswith(_PREAMBLE):
            self._preamble = line
            return b""
        message = _MESSAGE.search(line) if self.silenced else None
        if message is not None and (message["new"] or message["old"]) in self.silenced:
            self._continuation = _silenced_continuation(line[message.end() :])
            self._preamble = b""
            return line[: message.start()]
        preamble, self._preamble = self._preamble, b""
        return preamble + self._filter_message(line)

    def _filter_message(self, line: bytes) -> bytes:
        record = _RECORD.search(line)
        previous, self._continuation = self._continuation, _Continuation.NOTHING
        if record is None:
            if _belongs(line, previous):
                # An empty line ends the statistics.
                self._continuation = previous if line.strip() else _Continuation.NOTHING
                return b""
            return line
        message = line[record.end() :]
        if record["profiler"]:
            return line[: record.start()]
        if REFUSAL.match(message):
            self._continuation = _Continuation.FAILURE
            return line
        if not _DUMP.match(message):
            return line
        if message.startswith(b"Stats:"):
            self._continuation = _Continuation.STATISTICS
        # Text before the header on the same line, such as a progress bar, is not TensorFlow's.
        return line[: record.start()]

    def _find_wait(self, rest: bytes) -> int:
        """Return the position from which an incomplete line has to wait for its end."""
        if len(rest) > _LONGEST_WAIT_BYTES:
            return len(rest)
        may_be_preamble = self.silenced and rest.startswith(_PREAMBLE[: len(rest)])
        if may_be_preamble or self._continuation is not _Continuation.NOTHING:
            return 0
        possible = _MAY_BEGIN.search(rest)
        pattern = _MESSAGE if self.silenced else _RECORD
        if possible is None or (b"] " in possible[0] and not pattern.match(possible[0])):
            return len(rest)
        return possible.start()


def _silenced_continuation(message: bytes) -> _Continuation:
    if REFUSAL.match(message):
        return _Continuation.FAILURE
    return _Continuation.FIELDS if _BEFORE_PROTOCOL_BUFFER in message else _Continuation.SILENCED


def _belongs(line: bytes, previous: _Continuation) -> bool:
    if previous is _Continuation.FAILURE:
        return _ADVICE.match(line) is not None
    if previous is _Continuation.SILENCED:
        return _DETAIL.match(line) is not None
    if previous is _Continuation.FIELDS:
        return _FIELD.match(line) is not None
    return previous is _Continuation.STATISTICS and (not line.strip() or _STATISTIC.match(line) is not None)
