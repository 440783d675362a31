"""Where training is in its data: kept with a checkpoint or in a file, so that a restart goes on with the next batch."""

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

_NOBODY = -1


class Bookmark(keras.callbacks.Callback, tf.__internal__.tracking.AutoTrackable):
    """The epoch and the batch that come next.

    Give it to the dataset and to `fit`, and to `tf.train.Checkpoint` beside the model, or give it a path:

        bookmark = lt.feed.Bookmark("run/bookmark.json")
        data = lt.feed.arrays(x="x.npy", y="y.npy", batch_size=64, shuffle=True, budget="1GiB", bookmark=bookmark)
        model.fit(data, initial_epoch=bookmark.epoch, epochs=10, callbacks=[bookmark])

    In a loop of your own, iterate over `bookmark.follow(data)`. A file is written after every epoch, and after every
    `every` batches: save the model as often, and at the same time.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, every: int | None = None) -> None:
        super().__init__()
        self.path = None if path is None else Path(path)
        self.every = every
        # They are variables so that tf.train.Checkpoint saves and restores them.
        self._epoch = tf.Variable(0, dtype=tf.int64, trainable=False, name="epoch")
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self._seed = tf.Variable(_NOBODY, dtype=tf.int64, trainable=False, name="seed")
        self._left_out = tf.Variable(0, dtype=tf.int64, trainable=False, name="left_out")
        self._first = 0
        self._find_left_out: Callable[[int, int], int] | None = None
        self._may_be_short = False
        self._warnings = contextlib.ExitStack()
        if self.path is not None and self.path.exists():
            self._read(self.path)

    @property
    def epoch(self) -> int:
        """The epoch that comes next, or is not over yet."""
        return int(self._epoch.numpy())

    @property
    def step(self) -> int:
        """The batch of it that comes next."""
        return int(self._step.numpy())

    @property
    def left_out(self) -> int:
        """How many samples of the epoch were left out before that batch, because they could not be read."""
        return int(self._left_out.numpy())

    def belong_to(self, find_left_out: Callable[[int, int], int], may_be_short: bool) -> None:
        """Be told by a dataset how many samples it has left out before a batch, and whether it may leave some out."""
        self._find_left_out, self._may_be_short = find_left_out, may_be_short

    def seed(self, wanted: int | None, otherwise: int) -> int:
        """The seed of the order: as it was when the bookmark was made, or now and from now on."""
        known = int(self._seed.numpy())
        if known == _NOBODY:
            self._seed.assign(otherwise if wanted is None else wanted)
        elif wanted is not None and wanted != known:
            raise LowtideError(
                "the bookmark belongs to another order", given=f"seed {wanted}, not {known}", cure="leave the seed out"
            )
        return int(self._seed.numpy())

    def follow(self, dataset: tf.data.Dataset) -> Iterator[Any]:
        """The rest of the epoch; a batch counts as used once the next one is asked for."""
        for batch in dataset:
            yield batch
            self.move_to(self.epoch, self.step + 1)
        self.move_to(self.epoch + 1, 0)

    def move_to(self, epoch: int, step: int) -> None:
        """Say what comes next."""
        self._left_out.assign(0 if self._find_left_out is None or step == 0 else self._find_left_out(epoch, step))
        self._epoch.assign(epoch)
        self._step.assign(step)
        if self.path is not None and (step == 0 or (self.every is not None and step % self.every == 0)):
            self.save(self.path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, which is either the old or the new one whatever happens meanwhile."""
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
            raise LowtideError("this is no bookmark", given=path, cure="remove it to begin anew") from error

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._first = self.step
        if self._first and self.params.get("steps") is None and self.params.get("epochs", 0) > epoch + 1:
            raise LowtideError(
                "Keras would make all epochs as short as the rest of this one",
                given="a dataset that does not say how long it is",
                cure="of what lt.feed returned give only map and prefetch to fit, or fit this epoch by itself",
            )
        if self._first or self._may_be_short:
            # Keras expects a whole epoch, and warns that there is no more of this one.
            self._warnings.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message="Your input ran out of data")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # With several steps in one call this comes once for all of them, with the number of the last.
        self.move_to(self.epoch, self._first + batch + 1)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._warnings.close()
        self.move_to(self.epoch + 1, 0)
