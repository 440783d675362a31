"""Datasets of lt.feed with a bookmark: each iterator starts at the bookmark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from lowtide.errors import LowtideError
from lowtide.tf.train.data.training_data import Passes, TrainingData, batch_size_of, skip


class BookmarkedData(TrainingData):
    """A dataset of lt.feed that was made with a bookmark."""

    def __init__(self, adapter: TFDatasetAdapter, steps_per_epoch: int | None) -> None:
        self._dataset = adapter.get_tf_dataset()
        # Its class is in the room feed, which imports this one.
        self._feed: Any = self._dataset.feed
        spec = self._dataset.element_spec
        super().__init__(spec, Passes(self._feed.steps, steps_per_epoch), batch_size_of(self._dataset))

    def _start(self, number: int, first: int) -> tf.data.Iterator:
        # Which samples were left out before the first batch is only known after they were read.
        skipped = first if self._feed.options.skips_errors else 0
        self._feed.bookmark.move_to(number, first - skipped)
        return skip(iter(self._dataset), skipped)

    def save(self, folder: Path) -> dict[str, Any]:
        return {"seed": self._feed.options.seed}

    def restore(self, folder: Path, state: Mapping[str, Any]) -> None:
        seed = self._feed.options.seed
        if self._feed.options.shuffle and seed != state["seed"]:
            raise LowtideError(
                "the dataset has another order than in the checkpoint",
                given=f"seed {seed}, not {state['seed']}",
                cure="give lt.feed a seed",
            )
        # A callback of the user counts the batches of the epoch from here; Keras gives it their numbers.
        self._feed.bookmark.move_to(self._feed.bookmark.epoch, 0)
        self._iterator = None
