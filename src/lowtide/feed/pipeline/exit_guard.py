"""Lets a process end while its pipelines still read.

Python stops every other thread that needs the interpreter once it has begun to shut down. A thread of TensorFlow that
was stopped in a Python function never returns, and the main thread, which then deletes the iterator, waits for it for
ever. So before Python shuts down, running functions are waited for, and later calls fail at once: the pipeline fills
its buffers with errors, and its threads rest.
"""

import atexit
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

# A pipeline starts its next call well within this time.
_QUIET_SECONDS = 0.1
# A read from a slow disk may take this long; a process that waits longer seems to hang.
_LONGEST_WAIT_SECONDS = 10.0


class _Calls:
    """The calls of Python functions that pipelines are making."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running = 0
        self.last_end = 0.0
        self.is_ending = False

    def __enter__(self) -> None:
        with self.lock:
            self.running += 1
        if self.is_ending:
            self.__exit__()
            raise RuntimeError("the process is ending")

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.running -= 1
            self.last_end = time.monotonic()

    def end(self) -> None:
        """Let later calls fail, and wait until none has been running for a while."""
        self.is_ending = True
        deadline = time.monotonic() + _LONGEST_WAIT_SECONDS
        while (now := time.monotonic()) < deadline and (self.running or now < self.last_end + _QUIET_SECONDS):
            time.sleep(_QUIET_SECONDS / 10)


_calls = _Calls()
atexit.register(_calls.end)


def refuse_at_exit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, for calls from a pipeline: it is not called once the process is ending."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        with _calls:
            return function(*args)

    return call
