"""Returns freed memory to the system while a pipeline runs."""

from __future__ import annotations

import time

from lowtide.atlas.index.columns import trim_memory

# It takes at most one part of so many of the time. Its own processor time counts: on a busy machine, where it is needed
# most, it waits longer for a processor.
_PAUSE = 20


class FreedMemory:
    """What the threads of a pipeline have freed, and the C library keeps for each of them.

    Images are decoded in whichever thread is free, on a busy machine in more of them. Each thread's part keeps what its
    largest image took.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def give_back(self) -> None:
        """Return it to the system, unless that was done a moment ago."""
        if time.monotonic() < self._next:
            return
        started = time.thread_time()
        trim_memory()
        self._next = time.monotonic() + _PAUSE * (time.thread_time() - started)
