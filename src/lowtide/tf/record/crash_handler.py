"""Writes the results of a recording when a fatal signal ends the process.

On the CPU a oneDNN kernel that gets no memory writes to address zero. The signal handler holds the crashing thread
while another thread, started beforehand, finishes the recording. Then the process dies as it would have: by the handler
that was installed before, if there is one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowtide.run.record import report_failure

# The process dies after this time even if the results are not complete; the recorded events are saved by then.
MAX_SECONDS = 120.0
_FATAL_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
_SignalHandler = ctypes.CFUNCTYPE(None, ctypes.c_int)

# Keeps the handlers alive: the C library has their addresses only.
_installed: list[Any] = []


def install_crash_handler(folder: Path, finish: Callable[[], None]) -> None:
    """Call `finish` in a separate thread when a fatal signal arrives; its errors are reported in `folder`."""
    crashed, process = threading.Event(), os.getpid()
    received: list[int] = []
    previous: dict[int, int | None] = {}

    def finish_after_crash() -> None:
        crashed.wait()
        try:
            finish()
        except BaseException:
            report_failure(folder)
        _die(received[0], previous[received[0]])

    def hold(number: int) -> None:
        # The other thread does not exist in a fork of the script.
        if os.getpid() == process and threading.current_thread() is not finisher:
            # A second thread may crash of the same cause.
            received.append(number)
            crashed.set()
            # Sleeping releases the interpreter to the other thread, which ends the process.
            time.sleep(MAX_SECONDS)
        _die(number, previous[number])

    handler = _SignalHandler(hold)
    library = ctypes.CDLL(None)
    library.signal.restype = ctypes.c_void_p
    library.signal.argtypes = [ctypes.c_int, _SignalHandler]
    finisher = threading.Thread(target=finish_after_crash, name="lowtide crash handler", daemon=True)
    for number in _FATAL_SIGNALS:
        previous[int(number)] = library.signal(int(number), handler)
    _installed.extend((handler, finisher))
    finisher.start()


def _die(number: int, handler: int | None) -> None:
    """End the process as the signal would have done under the previous handler."""
    library = ctypes.CDLL(None)
    library.signal.restype = ctypes.c_void_p
    library.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    library.signal(number, handler)
    # A signal is blocked in a thread that is handling it.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    time.sleep(1.0)
    os._exit(128 + number)
