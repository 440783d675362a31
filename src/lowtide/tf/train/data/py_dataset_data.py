"""keras.utils.PyDataset: batches by number, in an order that depends on the seed and the number of the pass."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from lowtide.tf.train.data.host_random import seeded_generators
from lowtide.tf.train.data.training_data import Passes, TrainingData

_BEGIN, _END = "B", "E"


class _Part(keras.utils.PyDataset):
    """The batches of a PyDataset in an order, from one on."""

    def __init__(self, whole: keras.utils.PyDataset, order: npt.NDArray[np.int64] | None, first: int) -> None:
        super().__init__(whole.workers, whole.use_multiprocessing, whole.max_queue_size)
        self._whole, self._order, self._first = whole, order, first

    @property
    def num_batches(self) -> int | None:
        return None if self._order is None else len(self._order) - self._first

    def __getitem__(self, index: int) -> Any:
        number = self._first + index
        return self._whole[number if self._order is None else int(self._order[number])]


class PyDatasetData(TrainingData):
    """A PyDataset; its workers are Keras's.

    Its `on_epoch_begin` and `on_epoch_end` run with generators that are seeded by the number of the call. A restart
    calls them again, so that an order which they shuffle is the same.
    """

    note = (
        "If the PyDataset draws random numbers in __getitem__, they differ after a restart; the batches' order stays."
    )

    def __init__(self, adapter: PyDatasetAdapter, steps_per_epoch: int | None, shuffle: bool, seed: int) -> None:
        self._whole, self._class_weight = adapter.py_dataset, adapter.class_weight
        self._shuffle, self._seed = shuffle, seed
        self._calls = ""
        """The calls of `on_epoch_begin` and `on_epoch_end` so far."""
        self._saved_calls: str | None = None
        self._saved_epoch = 0
        self._running: PyDatasetAdapter | None = None
        signature = adapter.get_tf_dataset().element_spec
        super().__init__(signature, Passes(adapter.num_batches, steps_per_epoch), None)

    def begin_epoch(self, epoch: int, step: int = 0) -> None:
        for kind in self._missing_calls(epoch):
            self._call(kind)
        super().begin_epoch(epoch, step)
        if self._iterator is None:
            self._stop()
        self._call(_BEGIN)

    def end_epoch(self) -> None:
        if self.passes.steps_per_epoch is None:
            self._stop()
        self._call(_END)

    def _missing_calls(self, epoch: int) -> str:
        """The calls that this process has not made before an epoch."""
        calls, self._saved_calls = self._saved_calls, None
        if calls is None:
            return ""
        if calls.endswith(_BEGIN):
            calls = calls.removesuffix(_BEGIN) + (_BEGIN + _END) * (epoch - self._saved_epoch)
        return calls[len(self._calls) :]

    def _call(self, kind: str) -> None:
        with seeded_generators(self._seed, len(self._calls)):
            if kind == _BEGIN:
                self._whole.on_epoch_begin()
            else:
                self._whole.on_epoch_end()
        self._calls += kind

    def _start(self, number: int, first: int) -> tf.data.Iterator:
        batches = self.passes.batches
        order = None if batches is None else np.arange(batches)
        if order is not None and self._shuffle:
            np.random.default_rng([self._seed, number]).shuffle(order)
        self._running = PyDatasetAdapter(_Part(self._whole, order, first), self._class_weight)
        self._running._output_signature = self.element_spec
        self._running.on_epoch_begin()
        return iter(self._running.get_tf_dataset())

    def _stop(self) -> None:
        """Stop the workers of the previous pass."""
        if self._running is not None:
            self._running.on_epoch_end()
            self._running = None

    def save(self, folder: Path) -> dict[str, Any]:
        return {"calls": self._calls, "epoch": self._epoch}

    def restore(self, folder: Path, state: Mapping[str, Any]) -> None:
        self._saved_calls, self._saved_epoch = state["calls"], state["epoch"] or 0
        self._iterator = None
