"""Training data that continues at a position: the order of all epochs is that of a run that was never interrupted."""

import json
import random
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt
from lowtide.tf.train.data.adapter import ResumableAdapter
from lowtide.tf.train.data.choose import training_data

Data = tf.data.Dataset
EPOCHS = 3
ONE = tf.TensorSpec((), tf.int64)


def plus(offset):
    return lambda number: number + offset


def part_of(start):
    return Data.range(10 * start, 10 * start + 5)


def shuffled_part_of(start):
    return part_of(start).shuffle(5)


def add_noise(number):
    # The number of the sample in the thousands.
    return number * 1000 + tf.random.uniform([], 0, 9, tf.int64)


def double_in_python(number):
    return tf.ensure_shape(tf.py_function(lambda each: each * 2, [number], tf.int64), ())


def generate():
    """A generator that shuffles with the global generator of NumPy, as many do."""
    yield from np.random.permutation(20).astype(np.int64)


def numbers(count=20):
    return Data.range(count)


DATASETS = {
    "batch": lambda: numbers().batch(3).prefetch(2),
    "shuffle": lambda: numbers().shuffle(20).batch(3),
    "shuffle with a small buffer": lambda: numbers().shuffle(4).batch(3).prefetch(tf.data.AUTOTUNE),
    "shuffle with a seed": lambda: numbers().shuffle(20, seed=3).batch(3),
    "one order": lambda: numbers().shuffle(20, reshuffle_each_iteration=False).skip(4).take(13).batch(3),
    "a large buffer": lambda: numbers().shuffle(50_000).batch(3),
    "a large buffer, repeated": lambda: numbers(8).shuffle(50_000).repeat(2).batch(3),
    "two shuffles": lambda: numbers().shuffle(4).map(plus(1), num_parallel_calls=2).shuffle(5).batch(3),
    "repeat": lambda: numbers(8).shuffle(8).repeat(2).batch(3),
    "zip": lambda: Data.zip((numbers().shuffle(10), numbers().shuffle(5))).batch(3),
    "concatenate": lambda: numbers(9).shuffle(9).concatenate(Data.range(20, 29).shuffle(9)).batch(3),
    "interleave": lambda: numbers(4).shuffle(4).interleave(part_of, 2, num_parallel_calls=2).shuffle(8).batch(3),
    "shuffles in interleave": lambda: numbers(4).interleave(shuffled_part_of, 2).batch(3),
    "flat_map and filter": lambda: numbers(5).shuffle(5).flat_map(part_of).filter(lambda each: each % 3 > 0).batch(3),
    "cache and shuffle": lambda: numbers().cache().shuffle(20).batch(3),
    "shuffle and cache": lambda: numbers().shuffle(20).cache().batch(3),
    "samples of two": lambda: Data.sample_from_datasets([numbers(9), Data.range(20, 29)], seed=3).batch(3),
    "Python function": lambda: numbers().shuffle(20).map(double_in_python).batch(3),
    "generator": lambda: Data.from_generator(generate, output_signature=ONE).shuffle(4).batch(3),
    "feed": lambda: lt.feed.arrays(np.arange(20), batch_size=3, shuffle=True, budget="1MiB").map(plus(0)),
    "feed with a bookmark": lambda: lt.feed.arrays(
        np.arange(20), batch_size=3, shuffle=True, budget="1MiB", bookmark=lt.feed.Bookmark()
    ),
}


class Batches(keras.utils.PyDataset):
    """Shuffles its samples with the global generators at the end of each epoch."""

    def __init__(self, **options):
        super().__init__(**options)
        self.samples = np.arange(20)

    def __len__(self):
        return 7

    def __getitem__(self, number):
        return self.samples[3 * number : 3 * number + 3]

    def on_epoch_end(self):
        np.random.shuffle(self.samples)
        random.random()


class EndlessBatches(keras.utils.PyDataset):
    num_batches = None

    def __getitem__(self, number):
        return np.arange(3 * number, 3 * number + 3)


def yield_batches():
    rows = np.random.permutation(100)
    for number in range(33):
        yield (rows[3 * number : 3 * number + 3],)


ROWS = np.arange(20)
OTHERS = {
    "arrays": lambda: {"x": ROWS, "batch_size": 3},
    "arrays in order": lambda: {"x": ROWS, "batch_size": 3, "shuffle": False},
    "arrays, batches shuffled": lambda: {"x": ROWS, "batch_size": 3, "shuffle": "batch"},
    "arrays, short epochs": lambda: {"x": ROWS, "batch_size": 3, "steps_per_epoch": 3},
    "PyDataset": lambda: {"x": Batches()},
    "PyDataset with workers": lambda: {"x": Batches(workers=2)},
    "endless PyDataset": lambda: {"x": EndlessBatches(), "steps_per_epoch": 4},
    "Python generator": lambda: {"x": yield_batches(), "steps_per_epoch": 4},
    "endless dataset": lambda: {"x": numbers().shuffle(20).repeat().batch(3), "steps_per_epoch": 4},
    "short epochs": lambda: {"x": numbers().shuffle(20).batch(3), "steps_per_epoch": 3},
    "unknown length": lambda: {"x": numbers().shuffle(20).filter(lambda each: each > 2).batch(3), "steps_per_epoch": 4},
}
KINDS = {**{name: lambda make=make: {"x": make()} for name, make in DATASETS.items()}, **OTHERS}


def make_data(kind):
    """As the child process of a run does it: the seeds are set before the script builds its pipeline."""
    keras.utils.set_random_seed(5)
    return training_data(**KINDS[kind](), seed=11)


def first_of(batch):
    return tf.nest.flatten(batch)[0].numpy().tolist()


def train(data, epoch=0, step=0, save=None):
    """Draw the batches of the epochs from a position on; call `save` after the start and after each batch."""
    drawn = {}
    while epoch < EPOCHS:
        data.begin_epoch(epoch, step)
        iterator, number = data.iterator(), step
        assert data.iterator() is iterator
        while data.steps is None or number < data.steps:
            if save is not None:
                save(data, epoch, number)
            batch = next(iterator, None)
            if batch is None:
                break
            drawn[epoch, number] = first_of(batch)
            number += 1
        data.end_epoch()
        epoch, step = epoch + 1, 0
        if save is not None and epoch < EPOCHS:
            save(data, epoch, 0)
    return drawn


@pytest.mark.parametrize("kind", KINDS)
def test_every_position_continues_as_if_there_had_been_no_restart(kind, tmp_path):
    undisturbed = train(make_data(kind))
    states = []

    def save(data, epoch, step):
        folder = tmp_path / str(len(states))
        folder.mkdir()
        states.append((epoch, step, folder, json.dumps(data.save(folder)), str(np.random.get_state()[1:])))

    assert train(make_data(kind), save=save) == undisturbed
    for epoch, step, folder, state, _ in states[:: max(len(states) // 9, 1)]:
        data = make_data(kind)
        data.restore(folder, json.loads(state))
        rest = {place: batch for place, batch in undisturbed.items() if place >= (epoch, step)}
        assert train(data, epoch, step) == rest, (epoch, step)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "two" not in kind and kind != "zip"])
def test_an_epoch_has_each_sample_once(kind):
    drawn = train(make_data(kind))
    for epoch in range(EPOCHS) if "steps_per_epoch" not in KINDS[kind]() else ():
        samples = [sample for place, batch in drawn.items() if place[0] == epoch for sample in batch]
        assert len(samples) > 12
        assert len(set(samples)) == len(samples) / (2 if "repeat" in kind else 1)
