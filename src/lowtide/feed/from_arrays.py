"""`lt.feed.arrays`: a dataset over arrays in files, within a budget."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.options import (
    RAISE,
    ShardGiven,
    by_index,
    check_batch,
    check_on_error,
    chosen_seed,
    processors,
    sharded,
)
from lowtide.feed.pipeline.order import InWindows
from lowtide.feed.pipeline.pipeline import Feed, batch_bytes, make_dataset
from lowtide.feed.pipeline.sizing import choose_sizes, in_runs
from lowtide.feed.readers.array_files import open_array
from lowtide.feed.readers.array_samples import Arrays
from lowtide.units import parse_bytes


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
    shard: ShardGiven = None,
    on_error: str = "raise",
    bookmark: Bookmark | None = None,
) -> tf.data.Dataset:
    """Batches of rows of arrays that lie in files: `.npy`, `.npz`, HDF5, Zarr, or arrays that are there.

    `x`, `y` and `sample_weight` may be paths, arrays, or dicts and tuples of these. What is in a file is never loaded
    as a whole; compressed members of a `.npz` are unpacked once to the disk. `shuffle` permutes all rows, anew in each
    epoch, where rows can be read one by one; HDF5 and Zarr in chunks are read chunk by chunk and shuffled on two
    levels. `lt.feed.describe(dataset)` says what it is. With `on_error="skip"` rows of chunks that cannot be decoded
    are left out.
    """
    given = (x,) if y is None else (x, y) if sample_weight is None else (x, y, sample_weight)
    structure = given if len(given) > 1 else x
    roles = _roles(x, y, sample_weight)
    samples = Arrays([open_array(each, role) for each, role in zip(tf.nest.flatten(structure), roles, strict=True)])
    check_batch(batch_size)
    check_on_error(on_error)
    size = batch_bytes(samples.fields, batch_size)
    # A batch may have a row in as many blocks as it has rows, but not in more than there are.
    row = sum(field.bytes for field in samples.fields)
    touched = min(batch_size, len(samples.blocks or ())) * samples.block * row
    sizing = choose_sizes(
        parse_bytes(budget), size, processors(), touched if shuffle else samples.block * row * bool(samples.blocks)
    )
    samples.blocks_read.room_bytes = sizing.window_bytes
    order = by_index(samples.count, shuffle and samples.blocks is None, seed, bookmark)
    if shuffle and samples.blocks is not None:
        order = InWindows(
            samples.blocks or (),
            max(sizing.window_bytes // max(row, 1) - samples.block, 1),
            chosen_seed(seed, bookmark),
        )
    if on_error == RAISE:
        # Where rows are left out, it is not known where batches end in a run.
        sizing = in_runs(sizing)
    feed = Feed(samples, sharded(order, shard), batch_size, drop_remainder, sizing, bookmark, on_error)
    feed.notes += [f"{each.name} {each.unpacked.describe()}" for each in samples.arrays if each.unpacked is not None]
    numbers = tf.nest.pack_sequence_as(structure, range(len(samples.arrays)))
    return make_dataset(feed, samples, numbers)


def _roles(x: Any, y: Any, sample_weight: Any) -> list[str]:
    """What each array is called: the key of a dict, or what it was given as."""
    roles: list[str] = []
    for role, given in (("x", x), ("y", y), ("sample_weight", sample_weight)):
        if given is None:
            continue
        keys = sorted(given) if isinstance(given, dict) else [role] * len(tf.nest.flatten(given))
        roles += [str(key) for key in keys]
    return roles
