"""The datasets that lt.feed returns: tf.data.Datasets that know their feed."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.error_notes import install_notes
from lowtide.feed.pipeline.feed import Feed


class FedDataset(tf.data.Dataset):
    """A dataset of lt.feed together with its feed.

    It shares the variant tensor of the dataset it wraps, so it adds no stage to the pipeline. `map`, `prefetch` and
    `with_options` do not change the number of batches: their results still belong to the feed.
    """

    def __init__(self, dataset: tf.data.Dataset, feed: Feed) -> None:
        self._dataset = dataset
        self.feed = feed
        super().__init__(dataset._variant_tensor)

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._dataset]

    @property
    def element_spec(self) -> Any:
        return self._dataset.element_spec

    @property
    def class_names(self) -> list[str] | None:
        """The names of the classes 0, 1, 2 ... of a folder of images; None for other sources."""
        return getattr(self.feed.source, "class_names", None)

    def cardinality(self) -> tf.Tensor:
        """The number of batches of a full epoch, also when an iteration starts later or leaves out samples.

        Without a cardinality Keras assumes that all epochs are as long as the first one.
        """
        return super().cardinality() if self.feed.is_exact else tf.constant(self.feed.cardinality, tf.int64)

    def map(self, *args: Any, **kwargs: Any) -> FedDataset:
        return FedDataset(super().map(*args, **kwargs), self.feed)

    def prefetch(self, *args: Any, **kwargs: Any) -> FedDataset:
        return FedDataset(super().prefetch(*args, **kwargs), self.feed)

    def with_options(self, *args: Any, **kwargs: Any) -> FedDataset:
        return FedDataset(super().with_options(*args, **kwargs), self.feed)


def feed_of(dataset: tf.data.Dataset) -> Feed:
    """The feed of a dataset that lt.feed made."""
    if not isinstance(dataset, FedDataset):
        raise LowtideError(
            "this dataset is not one of lowtide's", given=type(dataset).__name__, cure="give what lt.feed returned"
        )
    return dataset.feed


def describe(dataset: tf.data.Dataset) -> str:
    """Describe a dataset of lt.feed: its order, its batches, and its memory."""
    return feed_of(dataset).describe()


def problems(dataset: tf.data.Dataset) -> list[str]:
    """The samples that a dataset with `on_error="skip"` has left out so far: where they are stored, and why."""
    # A damaged sample is reported in every epoch.
    return list(dict.fromkeys(feed_of(dataset).problems))


def finish_dataset(feed: Feed, batches: tf.data.Dataset) -> tf.data.Dataset:
    """Add the last stages to a pipeline: prefetching and options, and no buffers that the budget does not count."""
    install_notes()
    if feed.sizing.prefetched:
        batches = batches.prefetch(feed.sizing.prefetched)
    # TensorFlow checks this cardinality, and the rest of an epoch after a restart has fewer batches.
    if feed.is_exact and feed.steps is not None:
        batches = batches.apply(tf.data.experimental.assert_cardinality(feed.steps))
    if feed.bookmark is not None:
        feed.bookmark.attach(feed.count_skipped, feed.steps is None or feed.options.skips_errors)
        feed.end_epoch()
    return FedDataset(batches.with_options(_make_options(feed.sizing.readers)), feed)


def _make_options(readers: int) -> tf.data.Options:
    options = tf.data.Options()
    # The budget determines the read-ahead: TensorFlow may not add buffers. Those of a fixed size stay as they are.
    options.experimental_optimization.inject_prefetch = False
    # There is nothing to tune. The tuning thread sleeps for as long as the pipeline has run, up to a minute, and is not
    # always woken when an iterator is deleted, which then waits for it: an epoch would take up to twice its time.
    options.autotune.enabled = False
    # The C library keeps memory for every thread: no more threads than work.
    options.threading.private_threadpool_size = readers + 1
    # The next batch depends on its number alone: the Python functions have no state to be saved.
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    # A symbolic checkpoint would start a new iteration when it is restored; a full one saves the prefetched batches.
    options.experimental_symbolic_checkpoint = False
    return options
