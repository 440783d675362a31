"""The position of training in its data, saved with a checkpoint or in a file, so that a restart can continue."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.readers.files import write_json

_NO_SEED = -1


class Bookmark(keras.callbacks.Callback, tf.__internal__.tracking.AutoTrackable):
    """The epoch and the batch that come next.

    Give it to the dataset and to `fit`, and to `tf.train.Checkpoint` beside the model, or give it a path:

        bookmark = lt.feed.Bookmark("run/bookmark.json")
        data = lt.feed.arrays(x="x.npy", y="y.npy", batch_size=64, shuffle=True, budget="1GiB", bookmark=bookmark)
        model.fit(data, initial_epoch=bookmark.epoch, epochs=10, callbacks=[bookmark])

    In a custom training loop, iterate over `bookmark.follow(data)`. The file is written after every epoch, and after
    every `every` batches: save the model at the same times.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, every: int | None = None) -> None:
        super().__init__()
        self.path = None if path is None else Path(path)
        self.every = every
        # Variables, so that tf.train.Checkpoint saves and restores them.
        self._epoch = tf.Variable(0, dtype=tf.int64, trainable=False, name="epoch")
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self._seed = tf.Variable(_NO_SEED, dtype=tf.int64, trainable=False, name="seed")
        self._left_out = tf.Variable(0, dtype=tf.int64, trainable=False, name="left_out")
        self._first_step = 0
        self._count_skipped: Callable[[int, int], int] | None = None
        self._may_be_short = False
        self._warnings = contextlib.ExitStack()
        if self.path is not None and self.path.exists():
            self._read(self.path)

    @property
    def epoch(self) -> int:
        """The current epoch, or the next one if it has not started."""
        return int(self._epoch.numpy())

    @property
    def step(self) -> int:
        """The next batch of the epoch."""
        return int(self._step.numpy())

    @property
    def left_out(self) -> int:
        """The number of samples of the epoch before that batch that were left out because they could not be read."""
        return int(self._left_out.numpy())

    def attach(self, count_skipped: Callable[[int, int], int], may_be_short: bool) -> None:
        """Attach to a dataset.

        `count_skipped` returns the number of samples that were left out before a step of an epoch; `may_be_short` says
        whether an epoch may have fewer batches than expected.
        """
        self._count_skipped, self._may_be_short = count_skipped, may_be_short

    def choose_seed(self, wanted: int | None, random: int) -> int:
        """The saved seed of the order; without one, save `wanted` or `random` and return it."""
        known = int(self._seed.numpy())
        if known == _NO_SEED:
            self._seed.assign(random if wanted is None else wanted)
        elif wanted is not None and wanted != known:
            raise LowtideError(
                "the bookmark belongs to another order",
                given=f"seed {wanted}, not {known}",
                cure="leave the seed out",
            )
        return int(self._seed.numpy())

    def follow(self, dataset: tf.data.Dataset) -> Iterator[Any]:
        """Iterate over the rest of the epoch; a batch counts as used once the next one is requested."""
        for batch in dataset:
            yield batch
            self.move_to(self.epoch, self.step + 1)
        self.move_to(self.epoch + 1, 0)

    def move_to(self, epoch: int, step: int) -> None:
        """Set the epoch and the step that come next."""
        self._left_out.assign(0 if self._count_skipped is None or step == 0 else self._count_skipped(epoch, step))
        self._epoch.assign(epoch)
        self._step.assign(step)
        if self.path is not None and (step == 0 or (self.every is not None and step % self.every == 0)):
            self.save(self.path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bookmark to a file, atomically."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {name: int(variable.numpy()) for name, variable in self._content().items()})

    def _content(self) -> dict[str, tf.Variable]:
        return {"epoch": self._epoch, "step": self._step, "seed": self._seed, "left_out": self._left_out}

    def _read(self, path: Path) -> None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            for name, variable in self._content().items():
                variable.assign(int(content[name]))
        except (ValueError, KeyError, TypeError) as error:
            raise LowtideError("this file is not a bookmark", given=path, cure="remove it to start over") from error

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._first_step = self.step
        if self._first_step and self.params.get("steps") is None and self.params.get("epochs", 0) > epoch + 1:
            raise LowtideError(
                "Keras would make all epochs as short as the rest of this one",
                given="a dataset of unknown length",
                cure="after lt.feed use only map and prefetch, or fit this epoch by itself",
            )
        if self._first_step or self._may_be_short:
            # Keras expects a full epoch, and warns when this one ends early.
            self._warnings.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message="Your input ran out of data")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # With steps_per_execution > 1 Keras calls this once for all of the steps, with the number of the last one.
        self.move_to(self.epoch, self._first_step + batch + 1)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._warnings.close()
        self.move_to(self.epoch + 1, 0)
