"""Returns freed memory to the system while a pipeline runs."""

from __future__ import annotations

import time

from lowtide.atlas.index.columns import trim_memory

# After memory was returned, wait for 20 times the processor time that this took. Elapsed time would be wrong: it grows
# on a busy machine, where memory must be returned most often.
_PAUSE = 20


class FreedMemory:
    """Memory that the threads of a pipeline have freed and that the C library keeps for each thread.

    Any thread may decode an image, and on a busy machine more threads do. For each, the C library keeps the memory of
    the largest image.
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
