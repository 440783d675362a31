"""The way a script's output takes to its reader: a terminal where ours is one, else a pipe."""

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
# What a grandchild goes on writing after the script has ended is not waited for.
_LEFTOVER_BYTES = 1 << 20


class Channel:
    """Two ends: the child writes into one, and this process reads from the other."""

    def __init__(self, like: int) -> None:
        """Make a channel that is a terminal if the file descriptor `like` is one."""
        self._like = like
        self.reader: int
        self.writer: int | None
        self.is_terminal = os.isatty(like)
        try:
            self.reader, self.writer = pty.openpty() if self.is_terminal else os.pipe()
        except OSError:
            # Terminals are not to be had everywhere; a script that is told so can live with a pipe.
            self.is_terminal = False
            self.reader, self.writer = os.pipe()
        if self.is_terminal:
            _pass_bytes_unchanged(self.reader)
            self.copy_size()

    def copy_size(self) -> None:
        """Make it as large as the terminal that it stands for."""
        if self.is_terminal:
            # The terminal may have been closed.
            with suppress(OSError):
                size = fcntl.ioctl(self._like, termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
                fcntl.ioctl(self.reader, termios.TIOCSWINSZ, size)

    def close_writer(self) -> None:
        """Leave the writing end to the child alone, so that its end is seen here."""
        if self.writer is not None:
            os.close(self.writer)
            self.writer = None

    def read(self) -> bytes:
        """Return what is there; nothing says that nobody writes any more."""
        try:
            return os.read(self.reader, _READ_BYTES)
        except OSError:
            # There is nothing now, or it is how a terminal says that its last writer is gone.
            return b""

    def read_leftover(self, take: Callable[[bytes], None]) -> None:
        """Take what was written before the script ended, also if somebody else still holds the writing end."""
        os.set_blocking(self.reader, False)
        left = _LEFTOVER_BYTES
        while left > 0 and (data := self.read()):
            take(data)
            left -= len(data)

    def __enter__(self) -> Channel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_writer()
        os.close(self.reader)


def _pass_bytes_unchanged(terminal: int) -> None:
    """Leave it to the terminal on which everything ends up to turn line feeds into new lines."""
    output_flags = 1
    attributes = termios.tcgetattr(terminal)
    attributes[output_flags] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
