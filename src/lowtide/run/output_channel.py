"""The channel of a script's output: a pseudo-terminal if this process writes to a terminal, else a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

_READ_BYTES = 1 << 20
# Output of a grandchild after the script has ended is read up to this limit.
_LEFTOVER_BYTES = 1 << 20


class OutputChannel:
    """A channel that the child writes to and this process reads from."""

    def __init__(self, like: int) -> None:
        """Open a pseudo-terminal if the file descriptor `like` is a terminal, else a pipe."""
        self._like = like
        self.reader: int
        self.writer: int | None
        self.is_terminal = os.isatty(like)
        try:
            self.reader, self.writer = pty.openpty() if self.is_terminal else os.pipe()
        except OSError:
            # Pseudo-terminals are not available everywhere; a pipe works too.
            self.is_terminal = False
            self.reader, self.writer = os.pipe()
        if self.is_terminal:
            _pass_bytes_unchanged(self.reader)
            self.copy_size()

    def copy_size(self) -> None:
        """Copy the size of the terminal that it stands for."""
        if self.is_terminal:
            # The terminal may have been closed.
            with suppress(OSError):
                size = fcntl.ioctl(self._like, termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
                fcntl.ioctl(self.reader, termios.TIOCSWINSZ, size)

    def close_writer(self) -> None:
        """Close the writing end in this process, so that reading ends with the child."""
        if self.writer is not None:
            os.close(self.writer)
            self.writer = None

    def read(self) -> bytes:
        """Return the available data; empty when the last writer has closed the channel."""
        try:
            return os.read(self.reader, _READ_BYTES)
        except OSError:
            # There is no data now, or the last writer of a terminal is gone.
            return b""

    def read_leftover(self, take: Callable[[bytes], None]) -> None:
        """Read what was written before the script ended, even if another process still has the writing end open."""
        os.set_blocking(self.reader, False)
        left = _LEFTOVER_BYTES
        while left > 0 and (data := self.read()):
            take(data)
            left -= len(data)

    def __enter__(self) -> OutputChannel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_writer()
        os.close(self.reader)


def _pass_bytes_unchanged(terminal: int) -> None:
    """Turn off output processing: the real terminal translates line feeds."""
    output_flags = 1
    attributes = termios.tcgetattr(terminal)
    attributes[output_flags] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
