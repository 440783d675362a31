"""Fetch the arena of a planned step: one region of the allocator instead of many."""

from __future__ import annotations

import tensorflow as tf

from lowtide.simulator.arena import arena_requests
from lowtide.tf.memory_meter import devices_with_statistics

# An Empty tensor has dimensions of 32 bits, so a large one has two of them.
_ROW_BYTES = 1 << 20


def fetch_arena(total_bytes: int) -> None:
    """Let the allocator fetch the rest of `total_bytes` as one region; nothing is written to it.

    Only allocators with statistics have regions. The default allocator of the CPU has none.
    """
    for device in devices_with_statistics()[:1]:
        now = tf.config.experimental.get_memory_info(device)
        for wanted in arena_requests(total_bytes, now["current"], now["peak"]):
            try:
                with tf.device(device):
                    tf.raw_ops.Empty(shape=[wanted // _ROW_BYTES, _ROW_BYTES], dtype=tf.uint8)
            except tf.errors.ResourceExhaustedError:
                continue
            # The allocator's peak would count the empty block as used memory. A step with an arena has a higher peak
            # than all before it, so resetting the peak loses nothing.
            tf.config.experimental.reset_memory_stats(device)
            break
