"""The tensors and NumPy arrays that a script holds, with their names, found while it runs.

When a script has ended, the local variables of its functions are gone. So a thread looks whenever the memory of the
process has grown, and the recorder looks at the first call of each window.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework.ops import EagerTensor

from lowtide.run.machine import resident_bytes
from lowtide.tf.references.arrays import kept_arrays
from lowtide.tf.references.holders import KeptTensor, address_of, kept_tensors
from lowtide.tf.references.referrers import UNKNOWN, UNNAMED
from lowtide.tide.kinds import OUTSIDE
from lowtide.tide.owner import Owner

# Smaller ones do not explain where memory went; in a small program, smaller ones than this share of what is in use.
_NOTABLE_BYTES, _NOTABLE_SHARE = 1 << 20, 0.01
_INTERVAL_SECONDS = 0.05
# A look takes about a tenth of a second, so the memory must have grown by these bytes since the last one, and by this
# share of what the process has got since its recording began.
_GROWTH_BYTES, _GROWTH = 32 << 20, 0.25
_WITHOUT_NAME = (UNKNOWN.text, UNNAMED.text)


class HeldObjects:
    """Looks for tensors and arrays; `record` gets the tensors that the thread finds, with their addresses.

    `read_allocator` returns the allocator's bytes in use.
    """

    def __init__(
        self,
        record: Callable[[tuple[Owner, ...]], None],
        read_allocator: Callable[[], int],
        on_failure: Callable[[], None],
    ) -> None:
        self.arrays: tuple[Owner, ...] = ()
        """The NumPy arrays at the look that found the most bytes of them."""
        self._record = record
        self._read_allocator = read_allocator
        self._on_failure = on_failure
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_when_grown, name="lowtide held objects", daemon=True)

    def start(self) -> None:
        """Start the thread, if the system reports the memory of the process."""
        if resident_bytes() is not None:
            self._thread.start()

    def stop(self, seconds: float | None = None) -> None:
        """Stop the thread, after waiting at most `seconds` for its look to end."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def look(self, captured: Sequence[Any] = (), *, everywhere: bool = True) -> tuple[Owner, ...]:
        """Find what Python holds now; returns the named tensors with their addresses. Runs no op of TensorFlow.

        Tensors that a traced function has `captured` are constants of its step. See `kept_arrays` for `everywhere`.
        """
        # The address of a tensor that is not computed yet would have to be waited for.
        with _without_other_threads():
            least = min(_NOTABLE_BYTES, round((self._allocator_bytes() or 0) * _NOTABLE_SHARE) or _NOTABLE_BYTES)
            tensors = kept_tensors(least) if tf.config.experimental.get_synchronous_execution() else []
            arrays = kept_arrays(_NOTABLE_BYTES, everywhere=everywhere)
            constants = {address_of(each) for each in captured if isinstance(each, EagerTensor)}
        if _total_bytes(arrays) > _total_bytes(self.arrays):
            self.arrays = arrays
        return tuple(
            _owner(each, "constants" if each.address in constants else OUTSIDE)
            for each in tensors
            if each.address is not None and each.holder not in _WITHOUT_NAME
        )

    def look_and_record(self, *, everywhere: bool = True) -> None:
        """Look, and record the tensors that are found; a failure does not reach the script."""
        try:
            self._record(self.look(everywhere=everywhere))
        except Exception:
            self._on_failure()

    def _look_when_grown(self) -> None:
        detectors = (_GrowthDetector(resident_bytes), _GrowthDetector(self._allocator_bytes))
        while not self._ended.wait(_INTERVAL_SECONDS):
            grown = [detector.has_grown() for detector in detectors]
            if any(grown):
                self.look_and_record(everywhere=False)

    def _allocator_bytes(self) -> int | None:
        """The allocator's bytes; None before TensorFlow has devices, which a script may still want to configure."""
        return self._read_allocator() if context.context()._initialized else None


class _GrowthDetector:
    """An amount of memory that is read repeatedly."""

    def __init__(self, read: Callable[[], int | None]) -> None:
        self._read = read
        self._first = self._highest = read() or 0

    def has_grown(self) -> bool:
        """Whether the amount is notably higher than when this was last so."""
        now = self._read() or 0
        has_grown = now > self._highest + max(_GROWTH_BYTES, (self._highest - self._first) * _GROWTH)
        self._highest = now if has_grown else self._highest
        return has_grown


def _owner(tensor: KeptTensor, kind: str) -> Owner:
    return Owner(
        tensor.holder,
        kind=kind,
        dtype=tensor.dtype,
        shape=tensor.shape,
        bytes=tensor.bytes,
        source=tensor.source,
        address=tensor.address,
    )


def _total_bytes(owners: tuple[Owner, ...]) -> int:
    return sum(owner.bytes for owner in owners)


@contextmanager
def _without_other_threads() -> Iterator[None]:
    """Let no other thread run Python: a search refers to all objects, and keeps those alive that others free."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600.0)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
