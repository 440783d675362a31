"""A process that dies by a signal: time to write down what was heard.

On the CPU a oneDNN kernel that gets no memory writes to address zero. The handler holds the dying thread; another one,
which waited for this, ends the recording as at the end of a script, and then lets the process die as it would have: by
the handler that was there before, if the script has one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from typing import Any

from lowtide.run.record import report_failure

# Where a look at a large step takes longer, the record alone has to do.
LONGEST_SECONDS = 120.0
# The dying thread may be in the recorder itself.
LOCK_SECONDS = 1.0
_FATAL = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int)

# The C library keeps the addresses of the handlers; Python must not free them.
_KEPT: list[Any] = []


def listen(recorder: Any) -> None:
    """From now on, dying takes a little longer."""
    dying, process = threading.Event(), os.getpid()
    caught: list[int] = []
    before: dict[int, int | None] = {}

    def speak() -> None:
        dying.wait()
        try:
            _write_down(recorder)
        except BaseException:
            report_failure(recorder.folder)
        _die(caught[0], before[caught[0]])

    def hold(number: int) -> None:
        # A fork of the script has nobody who speaks.
        if os.getpid() == process and threading.current_thread() is not speaker:
            # A second thread may die of the same cause.
            caught.append(number)
            dying.set()
            # Sleeping gives the other thread the interpreter. It ends the process; if it cannot, this does.
            time.sleep(LONGEST_SECONDS)
        _die(number, before[number])

    handler = _Handler(hold)
    library = ctypes.CDLL(None)
    library.signal.restype = ctypes.c_void_p
    library.signal.argtypes = [ctypes.c_int, _Handler]
    speaker = threading.Thread(target=speak, name="lowtide last words", daemon=True)
    for number in _FATAL:
        before[int(number)] = library.signal(int(number), handler)
    _KEPT.extend((handler, speaker))
    speaker.start()


def _write_down(recorder: Any) -> None:
    from lowtide.tf.record.finish_recording import conclude

    recorder.end(patience=LOCK_SECONDS)
    conclude(recorder, is_dying=True)


def _die(number: int, handler: int | None) -> None:
    """End as the signal would have ended the process."""
    library = ctypes.CDLL(None)
    library.signal.restype = ctypes.c_void_p
    library.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    library.signal(number, handler)
    # It is held back from a thread that is handling it.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    time.sleep(1.0)
    os._exit(128 + number)
