"""Forwards signals from this process to the script."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGQUIT")
# A terminal sends these to all foreground processes, so the script gets them too.
_FROM_THE_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalRelay:
    """A context in which signals go to the script; this process survives to report what happened."""

    def __init__(self, resized: Callable[[], None]) -> None:
        self.stopped_by: int | None = None
        """The last signal to stop that was received."""
        self._resized = resized
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> SignalRelay:
        # Python allows signal handlers in the main thread only.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.Signals[name] for name in _FORWARDED):
                # A signal that is ignored here, such as SIGHUP under nohup, is ignored by the script too.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._forward)
            self._before[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, lambda number, frame: self._resized())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        """Forward signals to `process`, including those that arrived before it was started."""
        self._process = process
        for number in self._early:
            process.send_signal(number)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        if number in _STOPS:
            self.stopped_by = number
        if number in _FROM_THE_KEYBOARD and _is_in_foreground():
            return
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)


def _is_in_foreground() -> bool:
    """Whether the terminal sends its keyboard signals to this process and its group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
