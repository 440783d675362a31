"""`lt.feed.table`: datasets over the rows of Parquet and Arrow files, within a budget."""

from __future__ import annotations

import os
from collections.abc import Sequence

import tensorflow as tf

from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.feed import Feed
from lowtide.feed.pipeline.options import FeedOptions, ShardSpec
from lowtide.feed.pipeline.order import LISTED_BYTES, Order, StoredOrder, WindowedOrder
from lowtide.feed.pipeline.pipeline import make_dataset
from lowtide.feed.pipeline.sizing import choose_sizes
from lowtide.feed.readers.table_files import open_table
from lowtide.program.machine import processor_count
from lowtide.units import format_bytes

# A column of a block is in memory as it is stored, decoded, and as a NumPy array, and Arrow keeps as much of what it
# has freed: with half of it the benchmark's table reached its budget of 64 MiB.
_COLUMN_TIMES = 6


def table(
    source: str | os.PathLike[str] | Sequence[str],
    *,
    batch_size: int,
    budget: str | int,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    drop_remainder: bool = False,
    shard: ShardSpec = None,
    on_error: str = "raise",
    bookmark: Bookmark | None = None,
) -> tf.data.Dataset:
    """Batches of rows of Parquet or Arrow files, as dicts of columns, or as pairs if one column is the `label`.

    `source` is a pattern such as "events/*.parquet", or a list of paths. Rows are read a row group at a time, and
    shuffled on two levels: the order of row groups, then the rows of as many groups as fit into the budget.
    A row that lacks a value is an error that names it, and so is a row group or a file that cannot be read;
    `on_error="skip"` leaves it out.
    """
    options = FeedOptions(batch_size, budget, shuffle, seed, drop_remainder, shard, on_error, bookmark)
    files = open_table(source, columns, label, skip=options.skips_errors)
    block_bytes = files.largest_block_bytes + (LISTED_BYTES * max(files.blocks) if shuffle else 0)
    # In stored order a batch is in two groups at most; a shuffled one may be in all groups of a window.
    reason = f"two row groups, of which the largest takes {format_bytes(files.largest_block_bytes)}"
    sizing = choose_sizes(
        options.budget_bytes,
        batch_size * files.row_bytes,
        processor_count(),
        2 * block_bytes,
        reader_bytes=_COLUMN_TIMES * files.largest_column_bytes,
        block_reason=reason,
    )
    # A block is in memory twice while it is read.
    kept = sizing.window_bytes // block_bytes - 1
    files.keep_blocks(kept)
    order: Order = StoredOrder(files.count)
    if shuffle:
        order = WindowedOrder(files.blocks, kept * max(files.blocks), options.seed, kept)
    feed = Feed(files, options.shard_order(order), options, sizing)
    feed.problems += files.problems
    names = [each.name for each in files.fields]
    inputs = {name: number for number, name in enumerate(names) if name != label}
    return make_dataset(feed, files, inputs if label is None else (inputs, names.index(label)))
