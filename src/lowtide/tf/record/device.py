"""The device whose allocator is recorded, and the profiler's settings that have no public option."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

import tensorflow as tf
from tensorflow.python.eager import context


def disable_thread_pool_events() -> None:
    """Turn off the profiler's events of thread pools: 40 to 67% of all events, which nothing here reads.

    No public option does this. If the internal function is missing, the events only cost time.
    """
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib()) / "libtensorflow_framework.so.2"))
        library._ZN3tsl8profiler19threadpool_listener10DeactivateEv()


def device_name() -> str:
    """The device whose allocator is recorded: the first GPU, or the CPU."""
    return "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"


def limit_bytes() -> int | None:
    """The hard limit that the environment sets for the CPU's allocator."""
    limit = os.environ.get("TF_CPU_BFC_MEM_LIMIT_IN_MB")
    return int(limit) << 20 if limit and limit.isdigit() else None


def bytes_in_use() -> int:
    """The allocator's bytes in use; 0 if it keeps no statistics."""
    return _memory_info("current")


def peak_bytes_in_use() -> int:
    """The allocator's highest bytes in use; 0 if it keeps no statistics."""
    return _memory_info("peak")


def _memory_info(key: str) -> int:
    try:
        return int(context.context().get_memory_info(device_name())[key])
    except (tf.errors.OpError, ValueError):
        return 0
