"""Lets a script's output through at once, and holds back the allocator's dump, which may have 100,000s of lines.

What TensorFlow says of the profiler that lowtide itself turns on and off is held back too.
"""

from __future__ import annotations

import re
from enum import Enum, auto

# "I0000 00:00:1794776553.280574   18026 bfc_allocator.cc:1056] " and
# "2025-11-06 08:55:24.921743: I external/local_xla/xla/tsl/framework/bfc_allocator.cc:1049] ", piece by piece.
_HEADERS = (
    (
        b"[IWEF]",
        *[rb"\d"] * 4,
        b" ",
        rb"\d",
        rb"\d",
        b":",
        rb"\d",
        rb"\d",
        b":",
        rb"\d+",
        rb"\.",
        rb"\d+",
        b" +",
        rb"\d+",
    ),
    (
        *[rb"\d"] * 4,
        b"-",
        rb"\d",
        rb"\d",
        b"-",
        rb"\d",
        rb"\d",
        b" ",
        rb"[\d:]+",
        rb"\.",
        rb"\d+",
        b":",
        b" ",
        b"[IWEF]",
    ),
)
_MARKS = (b"bfc_allocator.cc", b"profiler_session.cc", b"save_profile.cc")
_RECORD = re.compile(
    b"(?:"
    + b"|".join(map(b"".join, _HEADERS))
    + rb") [^\s\]]*(?:bfc_allocator|(?P<profiler>profiler_session|save_profile))\.cc:\d+\] "
)


def _beginning_of(pieces: tuple[bytes, ...]) -> bytes:
    """Return a pattern for every beginning of the text that the pieces match together."""
    pattern = b""
    for piece in reversed(pieces):
        pattern = piece + (b"(?:" + pattern + b")?" if pattern else b"")
    return pattern


# The end of what has been read may be the beginning of such a line.
_MAY_BEGIN = re.compile(
    b"(?:"
    + b"|".join(_beginning_of((*pieces, b" ", rb"[^\s\]]+", rb"\]", b" ", b"[^\n\r]+")) for pieces in _HEADERS)
    + rb")\Z"
)
_DUMP = re.compile(
    rb"BFCAllocator dump for |Bin \(\d+\): |Bin for |  Size: |Next region of size |(?:InUse|Free |Chunk) at "
    rb"|     Summary of in-use Chunks|\d+ Chunks of size |Sum Total of in-use chunks|Total size in pool: "
    rb"|total_region_allocated_bytes_: |Stats: |[*x_]+\s*\Z"
)
_FAILURE = re.compile(rb"Allocator \(.*\) ran out of memory trying to allocate .*\(rounded to \d+\)")
_ADVICE = re.compile(rb"If the cause is memory fragmentation |Current allocation summary follows\.")
_STATISTIC = re.compile(rb"[A-Z][A-Za-z]+: +-?\d[\d.]*(?:B|[KMGTPE]iB)?\s*\Z")
_LONGEST_WAIT_BYTES = 1 << 16


class _After(Enum):
    """Lines without a header that belong to the message before them."""

    NOTHING = auto()
    FAILURE = auto()
    STATISTICS = auto()


class Sieve:
    """Takes bytes as they come, and returns those to be shown, unchanged and in order."""

    def __init__(self) -> None:
        self._waiting = b""
        """The beginning of a line that may turn out to belong to a dump."""
        self._released = 0
        """So many bytes of what waits have been shown, because nothing followed for a while."""
        self._after = _After.NOTHING

    @property
    def is_waiting(self) -> bool:
        """Whether something is held back that `release` would show."""
        return self._released < len(self._waiting)

    def pass_on(self, data: bytes) -> bytes:
        """Return what can be shown now that `data` has come."""
        data = self._waiting + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        whole, rest = data[:end], data[end:]
        lines = (
            whole.splitlines(keepends=True)
            if any(mark in whole for mark in _MARKS) or self._after is not _After.NOTHING
            else [whole]
        )
        shown = [self._take(line) for line in lines if line]
        waits_from = self._find_wait(rest)
        self._waiting = rest[waits_from:]
        shown.append(rest[min(self._released, waits_from) : waits_from])
        self._released = max(self._released - waits_from, 0)
        return b"".join(shown)

    def release(self) -> bytes:
        """Return what was held back; whoever wrote it has stopped in the middle of a line."""
        shown = self._waiting[self._released :]
        self._released = len(self._waiting)
        return shown

    def _take(self, line: bytes) -> bytes:
        shown = self._sift(line)
        if self._released:
            # If a part of the line is on the screen already, its end must not take the next line's beginning.
            shown = shown[self._released :] if shown else line[-1:]
            self._released = 0
        return shown

    def _sift(self, line: bytes) -> bytes:
        """Return what is shown of a whole line."""
        record = _RECORD.search(line)
        after, self._after = self._after, _After.NOTHING
        if record is None:
            if _belongs(line, after):
                # An empty line ends the statistics.
                self._after = after if line.strip() else _After.NOTHING
                return b""
            return line
        message = line[record.end() :]
        if record["profiler"]:
            return line[: record.start()]
        if _FAILURE.match(message):
            self._after = _After.FAILURE
            return line
        if not _DUMP.match(message):
            return line
        if message.startswith(b"Stats:"):
            self._after = _After.STATISTICS
        # What stands before it on the same line, such as a progress bar, is somebody else's.
        return line[: record.start()]

    def _find_wait(self, rest: bytes) -> int:
        """Return from where on an unfinished line has to wait for its end."""
        if len(rest) > _LONGEST_WAIT_BYTES:
            return len(rest)
        if self._after is not _After.NOTHING:
            return 0
        possible = _MAY_BEGIN.search(rest)
        if possible is None or (b"] " in possible[0] and not _RECORD.match(possible[0])):
            return len(rest)
        return possible.start()


def _belongs(line: bytes, after: _After) -> bool:
    if after is _After.FAILURE:
        return _ADVICE.match(line) is not None
    return after is _After.STATISTICS and (not line.strip() or _STATISTIC.match(line) is not None)
