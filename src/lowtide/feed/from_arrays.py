"""`lt.feed.arrays`: datasets over arrays in files, within a budget."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.feed import Feed
from lowtide.feed.pipeline.options import FeedOptions, ShardSpec
from lowtide.feed.pipeline.order import Order, WindowedOrder
from lowtide.feed.pipeline.pipeline import make_dataset
from lowtide.feed.pipeline.sizing import choose_sizes
from lowtide.feed.readers.array_samples import ArraySamples
from lowtide.feed.readers.open_array import open_array
from lowtide.program.machine import processor_count
from lowtide.units import format_bytes, format_count


def arrays(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int,
    budget: str | int,
    shuffle: bool = False,
    seed: int | None = None,
    drop_remainder: bool = False,
    shard: ShardSpec = None,
    on_error: str = "raise",
    bookmark: Bookmark | None = None,
) -> tf.data.Dataset:
    """Batches of rows of arrays in files (`.npy`, `.npz`, HDF5, Zarr) or in memory.

    `x`, `y` and `sample_weight` may be paths, arrays, or dicts and tuples of these. Files are never loaded as a whole;
    compressed members of a `.npz` are unpacked once to the disk. `shuffle` permutes all rows, with a new order in each
    epoch, where rows can be read one by one; chunked HDF5 and Zarr are read chunk by chunk and shuffled on two levels.
    `lt.feed.describe(dataset)` says which. With `on_error="skip"` rows of chunks that cannot be decoded are left out.
    """
    options = FeedOptions(batch_size, budget, shuffle, seed, drop_remainder, shard, on_error, bookmark)
    given = (x,) if y is None else (x, y) if sample_weight is None else (x, y, sample_weight)
    structure = given if len(given) > 1 else x
    roles = _roles(x, y, sample_weight)
    opened = [open_array(each, role) for each, role in zip(tf.nest.flatten(structure), roles, strict=True)]
    samples = ArraySamples(opened)
    row_bytes = sum(field.bytes for field in samples.fields)
    # A shuffled batch touches at most one block per row, and no more blocks than there are.
    blocks = len(samples.blocks or ())
    touched = min(batch_size, blocks) if shuffle else min(1, blocks)
    block_bytes = touched * samples.block * row_bytes
    reason = _explain_blocks(samples.block, touched, samples.block * row_bytes) if block_bytes else None
    # While a block is copied from, another reader may replace it.
    loading_bytes = max(each.loading_bytes for each in opened) + (samples.block * row_bytes if block_bytes else 0)
    sizing = choose_sizes(
        options.budget_bytes,
        batch_size * row_bytes,
        processor_count(),
        block_bytes,
        reader_bytes=loading_bytes if block_bytes else 0,
        block_reason=reason,
    )
    samples.cache.most_bytes = sizing.window_bytes
    if shuffle and samples.blocks is not None:
        window = max(sizing.window_bytes // max(row_bytes, 1) - samples.block, 1)
        order: Order = WindowedOrder(samples.blocks, window, options.seed)
    else:
        order = options.order_by_index(samples.count)
    feed = Feed(samples, options.shard_order(order), options, sizing)
    feed.notes += [f"{each.name} {each.unpacked.describe()}" for each in opened if each.unpacked is not None]
    return make_dataset(feed, samples, tf.nest.pack_sequence_as(structure, range(len(opened))))


def _explain_blocks(block_rows: int, touched: int, block_bytes: int) -> str:
    """Why a batch needs the memory of whole chunks."""
    rows = format_count(block_rows, "row")
    one = f"a chunk of {rows} takes {format_bytes(block_bytes)} and is decoded as a whole"
    return one if touched == 1 else f"{one}, and a shuffled batch may need {touched:,} of them"


def _roles(x: Any, y: Any, sample_weight: Any) -> list[str]:
    """The name of each array: the key of a dict, or the name of the argument."""
    roles: list[str] = []
    for role, given in (("x", x), ("y", y), ("sample_weight", sample_weight)):
        if given is None:
            continue
        keys = sorted(given) if isinstance(given, dict) else [role] * len(tf.nest.flatten(given))
        roles += [str(key) for key in keys]
    return roles
