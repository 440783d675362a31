"""The options that all functions of lt.feed share."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.order import Order, ShardedOrder, ShuffledOrder, StoredOrder
from lowtide.units import parse_bytes

ShardSpec: TypeAlias = Any
"""A pair (index, count), a tf.distribute.InputContext, or None."""

_RAISE, _SKIP = "raise", "skip"


@dataclass(frozen=True)
class FeedOptions:
    """Checked options: how samples are batched and ordered, and what happens on errors."""

    batch_size: int
    budget: str | int
    shuffle: bool
    given_seed: int | None
    drop_remainder: bool
    shard: ShardSpec
    on_error: str
    bookmark: Bookmark | None

    def __post_init__(self) -> None:
        try:
            is_count = operator.index(self.batch_size) >= 1
        except TypeError:
            is_count = False
        if not is_count:
            raise LowtideError(
                "a batch has a whole number of samples, at least one",
                given=self.batch_size,
                cure="give a batch_size of 1 or more",
            )
        if self.on_error not in (_RAISE, _SKIP):
            raise LowtideError("unknown value of on_error", given=self.on_error, cure=f"give {_RAISE!r} or {_SKIP!r}")

    @property
    def budget_bytes(self) -> int:
        return parse_bytes(self.budget)

    @property
    def skips_errors(self) -> bool:
        """Whether samples that cannot be read are left out instead of raising an error."""
        return self.on_error == _SKIP

    @cached_property
    def seed(self) -> int:
        """The given seed, the seed of the bookmark, or one that is drawn."""
        drawn = _draw_seed() if self.given_seed is None else self.given_seed
        return drawn if self.bookmark is None else self.bookmark.choose_seed(self.given_seed, drawn)

    def order_by_index(self, count: int) -> Order:
        """The order of samples that can be read one by one, before sharding."""
        return ShuffledOrder(count, self.seed) if self.shuffle else StoredOrder(count)

    def shard_order(self, order: Order) -> Order:
        """The part of an order that this worker reads."""
        index, count = self.shard_index
        return order if count == 1 else ShardedOrder(order, index, count)

    @property
    def shard_index(self) -> tuple[int, int]:
        """The index of this worker's shard, and the number of shards."""
        if self.shard is None:
            return 0, 1
        shard = self.shard
        if isinstance(shard, tf.distribute.InputContext):
            shard = (shard.input_pipeline_id, shard.num_input_pipelines)
        try:
            index, count = map(operator.index, shard)
        except (TypeError, ValueError):
            index = count = 0
        if not 0 <= index < count:
            raise LowtideError("there is no such shard", given=shard, cure="give (index, count), 0 <= index < count")
        return index, count


def _draw_seed() -> int:
    """A seed that follows from TensorFlow's global seed, if that is set, as for its own shuffles; else a random one."""
    _, seed = tf.compat.v1.random.get_seed(None)
    return int.from_bytes(os.urandom(6)) if seed is None else int(seed)
