"""What all feeds can be told, and whether it makes sense."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.order import InTurn, Order, Shard, Shuffled

ShardGiven: TypeAlias = Any
"""A pair of index and count, a tf.distribute.InputContext, or None."""

RAISE, SKIP = "raise", "skip"


def check_batch(batch_size: int) -> None:
    if not isinstance(batch_size, int) or batch_size < 1:
        raise LowtideError("a batch has at least one sample", given=batch_size, cure="give a batch_size from 1 on")


def check_on_error(on_error: str) -> None:
    if on_error not in (RAISE, SKIP):
        raise LowtideError("what to do about an error?", given=on_error, cure=f"give {RAISE!r} or {SKIP!r}")


def by_index(count: int, shuffle: bool, seed: int | None, bookmark: Bookmark | None) -> Order:
    """The order of samples that can be read one by one."""
    return Shuffled(count, chosen_seed(seed, bookmark)) if shuffle else InTurn(count)


def sharded(order: Order, shard: ShardGiven) -> Order:
    """The part of an order that one of several workers reads."""
    index, count = split_shard(shard)
    return order if count == 1 else Shard(order, index, count)


def split_shard(shard: ShardGiven) -> tuple[int, int]:
    """Which part it is, and of how many."""
    if shard is None:
        return 0, 1
    if isinstance(shard, tf.distribute.InputContext):
        shard = (shard.input_pipeline_id, shard.num_input_pipelines)
    index, count = shard
    if not 0 <= index < count:
        raise LowtideError("there is no such shard", given=shard, cure="give (index, count) with 0 <= index < count")
    return index, count


def chosen_seed(seed: int | None, bookmark: Bookmark | None) -> int:
    """The seed that was given, that of a bookmark, or one that nobody knows."""
    otherwise = int.from_bytes(os.urandom(6))
    if bookmark is not None:
        return bookmark.seed(seed, otherwise)
    return otherwise if seed is None else seed


def processors() -> int:
    """How many threads can be at work."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
