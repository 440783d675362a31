"""The stages of a tf.data pipeline, as far as a restart depends on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import (
    cache_op,
    concatenate_op,
    directed_interleave_op,
    random_op,
    repeat_op,
    shuffle_op,
)
from tensorflow.python.framework import op_def_registry

_RANDOM = re.compile(r"Random|Truncated|ParameterizedTruncated|Multinomial|SampleDistorted|Stateful|Rng")
_ASSIGNMENT = re.compile(r"Assign(Add|Sub)?VariableOp$")
_PYTHON = re.compile(r"(Eager)?PyFunc$")
_GENERATOR = "GeneratorDataset"
# An iterator that counts seeds has the buffer of its shuffle: 10,000 places take 60 ms and 1.5 MB to save, a million
# 11 s and 156 MB.
_MOST_COUNTED_PLACES = 20_000


class Stages:
    """The stages behind a dataset, inputs before what is made from them, and the stateful ops of their functions."""

    def __init__(self, dataset: tf.data.Dataset) -> None:
        found: dict[int, tf.data.Dataset] = {}

        def visit(stage: tf.data.Dataset) -> None:
            if id(stage) not in found:
                for each in stage._inputs():
                    visit(each)
                found[id(stage)] = stage

        visit(dataset)
        self._dataset = dataset
        self._all = list(found.values())
        self._ops = set(self._find_ops())

    @property
    def seeded(self) -> list[tf.data.Dataset]:
        """The stages that draw a new seed for each iterator."""
        return self.of(shuffle_op._ShuffleDataset, random_op._RandomDataset)

    @property
    def feeds(self) -> list[Any]:
        """The feeds of datasets of lt.feed; a dataset that is made from one by map or prefetch has the same feed."""
        return list({id(each.feed): each.feed for each in self._all if hasattr(each, "feed")}.values())

    @property
    def has_no_seed(self) -> bool:
        """Whether another process draws other orders."""
        return any(not int(each._seed) and not int(each._seed2) for each in self.seeded)

    @property
    def can_count_seeds(self) -> bool:
        """Whether iterators that only count seeds are cheap."""
        shuffles = self.of(shuffle_op._ShuffleDataset)
        return sum(int(each._buffer_size) for each in shuffles) <= _MOST_COUNTED_PLACES

    @property
    def starts_inputs_late(self) -> bool:
        """Whether some inputs get an iterator only after others have ended."""
        return bool(self.of(repeat_op._RepeatDataset, concatenate_op._ConcatenateDataset))

    @property
    def caches_an_order(self) -> bool:
        """Whether a cache in memory holds what the random state of the first pass has determined."""
        inputs = [Stages(each) for each in self._memory_caches]
        return any(each.seeded or each.draws_numbers for each in inputs)

    @property
    def can_save_iterator(self) -> bool:
        """Whether the state of an iterator can be saved and restored, and is not as large as the data.

        The state has the contents of a cache in memory; a cache in a file is written from the beginning. A restored
        iterator of `sample_from_datasets` does not end if one of its datasets had ended (TensorFlow 2.21).
        """
        large = self.of(cache_op.CacheDataset, directed_interleave_op._DirectedInterleaveDataset)
        return not large and self.can_count_seeds and not self.generates

    @property
    def has_no_order(self) -> bool:
        """Whether elements come in the order in which they are ready."""
        # An interleave does not keep its argument.
        chosen = any(getattr(each, "_deterministic", None) == "false" for each in self._all)
        return chosen or self._dataset.options().deterministic is False

    @property
    def draws_numbers(self) -> bool:
        """Whether functions draw random numbers from a state; layers of Keras keep theirs in variables."""
        return any(_RANDOM.match(op) or _ASSIGNMENT.match(op) for op in self._ops)

    @property
    def calls_python(self) -> bool:
        """Whether functions call Python."""
        return any(_PYTHON.match(op) for op in self._ops)

    @property
    def generates(self) -> bool:
        """Whether a Python generator yields the elements."""
        return _GENERATOR in self._ops

    def unlock_caches(self) -> None:
        """Remove the lock files that a process which ended while it wrote a cache has left."""
        for each in self.of(cache_op.CacheDataset):
            if prefix := tf.compat.as_str(each._filename.numpy()):
                for path in tf.io.gfile.glob(f"{prefix}_*.lockfile"):
                    tf.io.gfile.remove(path)

    @property
    def _memory_caches(self) -> list[tf.data.Dataset]:
        return [each for each in self.of(cache_op.CacheDataset) if not each._filename.numpy()]

    def of(self, *types: type) -> list[tf.data.Dataset]:
        """The stages of some types."""
        return [each for each in self._all if isinstance(each, types)]

    def _find_ops(self) -> Iterator[str]:
        for stage in self._all:
            for function in stage._functions():
                yield from _find_stateful_ops(function.function.graph)


def _find_stateful_ops(graph: tf.Graph) -> Iterator[str]:
    """The stateful ops of a graph and of the functions that it calls."""
    yield from (op.type for op in graph.get_operations() if _is_stateful(op.type) or op.type == _GENERATOR)
    for function in graph._functions.values():
        if function.graph is not None:
            yield from _find_stateful_ops(function.graph)


def _is_stateful(op: str) -> bool:
    definition = op_def_registry.get(op)
    return definition is not None and definition.is_stateful
