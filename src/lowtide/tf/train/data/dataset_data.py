"""Any tf.data.Dataset: through the state of its iterator, or by skipping what was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from lowtide.run.train.settings import data_share
from lowtide.tf.train.data.host_random import read_generators, set_generators
from lowtide.tf.train.data.iterator_state import read_small_state, set_state
from lowtide.tf.train.data.seed_counters import SeedCounters
from lowtide.tf.train.data.stages import Stages
from lowtide.tf.train.data.training_data import ALL, Passes, TrainingData, batch_size_of, skip

# A restart skips batches rather than write more than this with every checkpoint.
_MOST_STATE_BYTES = 256 << 20
_ITERATOR, _COUNTERS = "iterator", "counters"


@dataclass
class _Saved:
    """What a restart knows."""

    number: int
    """The pass."""
    iterator: bytes | None
    """The state of its iterator; None if the batches have to be skipped."""
    first: list[bytes]
    """The counters of seeds before the first pass,"""
    start: list[bytes]
    """before this pass,"""
    now: list[bytes]
    """and at the position."""
    generators: dict[str, Any] | None
    """The random generators of Python and NumPy before this pass."""
    unused: int
    """The number of iterators that were made and not used."""


class DatasetData(TrainingData):
    """A tf.data.Dataset."""

    def __init__(self, adapter: TFDatasetAdapter, steps_per_epoch: int | None) -> None:
        dataset = _with_fewer_buffers(adapter.get_tf_dataset())
        if steps_per_epoch is not None and int(dataset.cardinality()) == tf.data.UNKNOWN_CARDINALITY:
            # Where a pass ends is unknown: an epoch that reaches the end goes on with the next pass.
            dataset = dataset.repeat()
        super().__init__(dataset.element_spec, Passes(adapter.num_batches, steps_per_epoch), batch_size_of(dataset))
        self._dataset = dataset
        self._stages = Stages(dataset)
        self._counters = SeedCounters(self._stages)
        self._first_start: list[bytes] | None = None
        self._start_of_pass: list[bytes] = []
        self._generators: dict[str, Any] | None = None
        self._unused = 0
        self._saved: _Saved | None = None
        self.note = _describe_limits(self._stages)

    def _start(self, number: int, first: int) -> tf.data.Iterator:
        saved, self._saved = self._saved, None
        if saved is None:
            return self._begin(first)
        iterator = self._continue(saved) if first > 0 and number == saved.number else None
        if iterator is not None:
            return iterator
        self._first_start = saved.first
        self._set_seeds(saved, number)
        if saved.generators is None or number != saved.number or first == 0:
            return self._begin(first)
        # The functions go on drawing where they are after the skipped batches.
        set_generators(saved.generators)
        return self._begin(first)

    def make_unused_iterator(self) -> None:
        if self.passes.steps_per_epoch is None:
            iter(self._dataset)
            self._unused += 1

    def _begin(self, first: int) -> tf.data.Iterator:
        """Begin a pass, and skip its first batches."""
        self._start_of_pass = self._counters.read()
        if self._first_start is None:
            self._first_start = self._start_of_pass
        self._generators = read_generators() if self._stages.generates or self._stages.calls_python else None
        return skip(iter(self._dataset), first)

    def _continue(self, saved: _Saved) -> tf.data.Iterator | None:
        """An iterator with the saved state; None if there is none, or it belongs to another pipeline."""
        if saved.iterator is None:
            return None
        iterator = iter(self._dataset)
        try:
            set_state(iterator, saved.iterator)
        except tf.errors.OpError:
            return None
        # To make the iterator has drawn seeds.
        self._counters.set(saved.now)
        self._first_start, self._start_of_pass, self._generators = saved.first, saved.start, saved.generators
        return iterator

    def _set_seeds(self, saved: _Saved, number: int) -> None:
        """Set the seeds and the caches to what they were before a pass."""
        made = 0
        if number > 0 and self._stages.caches_an_order:
            self._counters.set(saved.first)
            skip(iter(self._dataset), ALL)
            made = 1
        self._counters.set(saved.start if number == saved.number else saved.now)
        if not self._counters.has_all:
            for _ in range(made, number):
                skip(iter(self._dataset), ALL if self._stages.starts_inputs_late else 0)
            for _ in range(saved.unused):
                iter(self._dataset)

    def save(self, folder: Path) -> dict[str, Any]:
        if self._saved is not None:
            # The saved position was restored, but no batch was requested yet.
            self.iterator()
        now, state = self._counters.read(), None
        if self._iterator is not None and self._stages.can_save_iterator:
            state = read_small_state(self._iterator, _MOST_STATE_BYTES)
            # Stages that read ahead may have drawn a seed in between.
            while state is not None and (counted := self._counters.read()) != now:
                now, state = counted, read_small_state(self._iterator, _MOST_STATE_BYTES)
        start = now if self._iterator is None else self._start_of_pass
        _write(folder / _COUNTERS, [*(now if self._first_start is None else self._first_start), *start, *now])
        if state is not None:
            _write(folder / _ITERATOR, [state])
        return {
            "pass": self._pass, "has_iterator": state is not None, "generators": self._generators,
            "unused": self._unused,
        }  # fmt: skip

    def restore(self, folder: Path, state: Mapping[str, Any]) -> None:
        self._stages.unlock_caches()
        iterator = _read(folder / _ITERATOR)[0] if state["has_iterator"] else None
        counters = _read(folder / _COUNTERS)
        size = len(counters) // 3
        first, start, now = (counters[part * size : (part + 1) * size] for part in range(3))
        self._saved = _Saved(state["pass"], iterator, first, start, now, state["generators"], state["unused"])
        self._unused = self._saved.unused
        self._iterator = None


def _with_fewer_buffers(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Run one call at a time and prefetch nothing by itself, if the pipeline may use only a share of its memory.

    The order stays. A state that was saved with other buffers may not fit; then the batches are skipped.
    """
    if data_share() == 1.0:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 1
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options)


def _describe_limits(stages: Stages) -> str | None:
    if stages.has_no_seed:
        return (
            "The dataset has a shuffle without a seed: the epochs after a restart have other orders than without it. "
            "Call keras.utils.set_random_seed before the dataset is made."
        )
    if stages.has_no_order and not stages.can_save_iterator:
        return (
            "The dataset has no fixed order (deterministic=False) and no state that can be saved: after a restart, "
            "some samples of the current epoch may come twice, and others not at all."
        )
    if stages.generates:
        return "A restart runs the Python generator of the dataset again and drops the batches that were trained."
    if stages.draws_numbers:
        return "The random numbers that the dataset's functions draw differ after a restart; the samples do not."
    if stages.calls_python and not stages.feeds:
        return "What the Python functions of the dataset keep between calls is not restored."
    return None


def _write(path: Path, records: list[bytes]) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for each in records:
            writer.write(each)


def _read(path: Path) -> list[bytes]:
    return [each.numpy() for each in tf.data.TFRecordDataset(str(path))]
