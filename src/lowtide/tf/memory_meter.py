"""Reads the memory in use, within microseconds."""

from __future__ import annotations

import contextlib
import os
import weakref
from dataclasses import dataclass

import tensorflow as tf

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Bytes in use: by the device's allocator if it keeps statistics, and by the process if the system reports it."""

    allocator_bytes: int | None
    process_bytes: int | None

    @property
    def bytes(self) -> int | None:
        """The allocator's bytes, which are those of tensors only, or else those of the process."""
        return self.process_bytes if self.allocator_bytes is None else self.allocator_bytes


class MemoryMeter:
    """Reads the memory in use: of the GPUs' allocators, or the CPU's if it keeps statistics, and of the process.

    `source` describes where `MemoryReading.bytes` comes from.
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

    def read(self) -> MemoryReading:
        return MemoryReading(self._allocator_bytes(), self._process_bytes())

    def _allocator_bytes(self) -> int | None:
        if not self.devices:
            return None
        return sum(tf.config.experimental.get_memory_info(device)["current"] for device in self.devices)

    def _process_bytes(self) -> int | None:
        if self._statm is None:
            return None
        return int(os.pread(self._statm, 64, 0).split()[1]) * _PAGE


def devices_with_statistics() -> list[str]:
    """The devices whose allocators keep statistics: all GPUs, or the CPU if `TF_CPU_ALLOCATOR_USE_BFC` was set."""
    names = [f"GPU:{index}" for index in range(len(tf.config.list_logical_devices("GPU")))]
    if names:
        return names
    # After an allocation, zero means "not counted". In graph mode a tensor would be an op of the graph.
    allocated = tf.zeros([1024]) if tf.executing_eagerly() else None
    try:
        counted = tf.config.experimental.get_memory_info("CPU:0")["peak"] > 0
    except ValueError:
        # oneDNN's allocator returns zeros; that of a CPU without oneDNN raises.
        counted = False
    del allocated
    return ["CPU:0"] if counted else []
