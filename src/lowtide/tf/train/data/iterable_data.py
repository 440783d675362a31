"""Python generators and other iterables: a restart draws what was trained again, and drops it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.generator_data_adapter import GeneratorDataAdapter
from keras.src.trainers.data_adapters.torch_data_loader_adapter import TorchDataLoaderAdapter

from lowtide.tf.train.data.host_random import read_generators, set_generators
from lowtide.tf.train.data.training_data import ALL, Passes, TrainingData, skip


class IterableData(TrainingData):
    """A Python generator, a torch DataLoader, or another iterable that Keras accepts."""

    def __init__(self, adapter: DataAdapter, steps_per_epoch: int | None, seed: int) -> None:
        self._adapter, self._seed = adapter, seed
        self._dataset = adapter.get_tf_dataset()
        batches = adapter.num_batches
        super().__init__(self._dataset.element_spec, Passes(batches, steps_per_epoch), adapter.batch_size)
        self._made = 0
        """The number of passes that were begun."""
        # A generator has run up to its second batch, which shows what all batches look like.
        self._generators = read_generators()
        self._is_restart = False
        self.note = "After a restart the batches that were trained are drawn from the data again and dropped."
        if isinstance(adapter, GeneratorDataAdapter):
            self.note = "A restart runs the Python generator again and drops the batches that were trained."

    def _start(self, number: int, first: int) -> tf.data.Iterator:
        if self._is_restart:
            # A generator goes on drawing where it is after the skipped batches.
            set_generators(self._generators)
        if isinstance(self._adapter, TorchDataLoaderAdapter):
            # Its order depends on the seed and the pass: earlier passes need not be drawn again.
            _seed_torch(self._adapter, int(np.random.SeedSequence([self._seed, number]).generate_state(1)[0]))
        else:
            for _ in range(self._made, number if self._is_restart else 0):
                skip(iter(self._dataset), ALL)
        self._made, self._is_restart = number + 1, False
        return skip(iter(self._dataset), first)

    def restore(self, folder: Path, state: Mapping[str, Any]) -> None:
        self._is_restart = True
        self._iterator = None


def _seed_torch(adapter: TorchDataLoaderAdapter, seed: int) -> None:
    loader = adapter.get_torch_dataloader()
    # Of a loader without its own generator PyTorch draws from the global one.
    (loader.generator or sys.modules["torch"]).manual_seed(seed)
