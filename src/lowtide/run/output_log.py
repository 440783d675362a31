"""The log of a run: the script's standard error, or the beginning and the end of it."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from pathlib import Path

LIMIT_BYTES = 64 << 20


class OutputLog:
    """A file that keeps the first and the last bytes written to it, up to a limit.

    If the disk is full it keeps less, and the script continues.
    """

    def __init__(self, path: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.path = path
        self._file = path.open("wb", buffering=0)
        self._room = limit_bytes // 2
        self._tail: deque[bytes] = deque()
        self._tail_limit = limit_bytes - self._room
        self._tail_bytes = 0
        self._lost_bytes = 0

    def write(self, data: bytes) -> None:
        """Add data; it is written at once until the first half of the limit is reached."""
        with suppress(OSError):
            self._file.write(data[: self._room])
        data, self._room = data[self._room :], max(self._room - len(data), 0)
        if not data:
            return
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes > self._tail_limit:
            oldest = self._tail.popleft()
            excess = self._tail_bytes - self._tail_limit
            if len(oldest) > excess:
                self._tail.appendleft(oldest[excess:])
            lost = min(len(oldest), excess)
            self._tail_bytes -= lost
            self._lost_bytes += lost

    def close(self) -> None:
        """Write the last bytes, after a line that says how many are missing."""
        with suppress(OSError):
            if self._lost_bytes:
                self._file.write(f"\n[lowtide left out {self._lost_bytes} bytes here]\n".encode())
            for data in self._tail:
                self._file.write(data)
        self._tail.clear()
        self._file.close()
