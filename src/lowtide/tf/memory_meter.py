"""How much memory is in use right now, at the price of some microseconds."""

from __future__ import annotations

import contextlib
import os
import weakref
from dataclasses import dataclass

import tensorflow as tf

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Reading:
    """Bytes in use: by the device's allocator where it keeps count, and by the whole process where the system says."""

    allocator_bytes: int | None
    process_bytes: int | None

    @property
    def bytes(self) -> int | None:
        """The figure that tells most: the allocator's counts tensors alone."""
        return self.process_bytes if self.allocator_bytes is None else self.allocator_bytes


class Meter:
    """Reads the memory in use: of the GPUs' allocators, or the CPU's if it keeps statistics, and of the process.

    `source` says in words where `Reading.bytes` comes from.
    """

    def __init__(self) -> None:
        self.devices = devices_with_statistics()
        self.source = (
            f"the allocator of {', '.join(self.devices)}" if self.devices else "the resident memory of the process"
        )
        self._statm: int | None = None
        with contextlib.suppress(OSError):
            self._statm = os.open("/proc/self/statm", os.O_RDONLY)
            self._closing = weakref.finalize(self, os.close, self._statm)

    def read(self) -> Reading:
        return Reading(self._allocator_bytes(), self._process_bytes())

    def _allocator_bytes(self) -> int | None:
        if not self.devices:
            return None
        return sum(tf.config.experimental.get_memory_info(device)["current"] for device in self.devices)

    def _process_bytes(self) -> int | None:
        if self._statm is None:
            return None
        return int(os.pread(self._statm, 64, 0).split()[1]) * _PAGE


def devices_with_statistics() -> list[str]:
    """GPUs always keep count; the CPU's allocator does where `TF_CPU_ALLOCATOR_USE_BFC` was set."""
    names = [f"GPU:{index}" for index in range(len(tf.config.list_logical_devices("GPU")))]
    if names:
        return names
    # Once something was allocated, zero means "not counted". In graph mode a tensor would be an op of the graph.
    allocated = tf.zeros([1024]) if tf.executing_eagerly() else None
    try:
        counted = tf.config.experimental.get_memory_info("CPU:0")["peak"] > 0
    except ValueError:
        # oneDNN's allocator answers with zeros; the one of a CPU without oneDNN does not answer at all.
        counted = False
    del allocated
    return ["CPU:0"] if counted else []
