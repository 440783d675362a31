"""The allocator of a process that runs a planned step: what it holds before, and the arena of the step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from lowtide.simulator.arena import arena_requests
from lowtide.tf.memory_meter import devices_with_statistics
from lowtide.tf.record.device import limit_bytes
from lowtide.tf.references.holders import address_of, tensor_bytes

# An Empty tensor has dimensions of 32 bits, so a large one has two of them.
_ROW_BYTES = 1 << 20


def held_bytes(variables: Iterable[Any], budget_bytes: int) -> int:
    """Return the bytes of this process that a step's budget has to hold, once each variable has its own buffer.

    Memory besides the step counts only as far as the allocator's limit has no room for it above the budget. Returns 0
    if the allocator has no limit or keeps no statistics.
    """
    devices, limit = devices_with_statistics(), limit_bytes()
    if not devices or limit is None:
        return 0
    held = _separate_buffers(variables) + int(tf.config.experimental.get_memory_info(devices[0])["current"])
    return max(held - max(limit - budget_bytes, 0), 0)


def prepare_allocator(variables: Iterable[Any], total_bytes: int) -> None:
    """Prepare the allocator for a planned step that uses `variables` and takes `total_bytes` in all.

    Only allocators with statistics have regions. The default allocator of the CPU has none.
    """
    if devices_with_statistics():
        _separate_buffers(variables)
        _fetch_arena(total_bytes)


def _separate_buffers(variables: Iterable[Any]) -> int:
    """Give every variable its own buffer; return the bytes of those for which there is no memory left.

    An optimizer that is built while its step is traced initializes its slots in one graph, in which TensorFlow merges
    equal constants: slots of one shape then share one buffer of zeros. The first step would copy it for each slot, and
    place the copies between its own tensors, where they stay.
    """
    seen, shared_bytes = set(), 0
    for variable in variables:
        value = variable.read_value()
        address = address_of(value)
        if address is not None and address in seen:
            try:
                with tf.device(value.device):
                    variable.assign(tf.raw_ops.DeepCopy(x=value))
            except tf.errors.ResourceExhaustedError:
                shared_bytes += tensor_bytes(value)
        seen.add(address)
    return shared_bytes


def _fetch_arena(total_bytes: int) -> None:
    """Let the allocator fetch the rest of `total_bytes` as one region; nothing is written to it."""
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
