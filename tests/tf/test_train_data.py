"""Training data that continues at a position: the order of all epochs is that of a run that was never interrupted."""

import json
import os
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
from lowtide.tf.train.data.host_random import read_generators, set_generators

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
        states.append((epoch, step, folder, json.dumps(data.save(folder)), read_generators()))

    assert train(make_data(kind), save=save) == undisturbed
    for epoch, step, folder, state, generators in states[:: max(len(states) // 9, 1)]:
        data = make_data(kind)
        # A checkpoint also has the global generators.
        set_generators(generators)
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


def test_random_numbers_differ_after_a_restart_but_no_sample_does(tmp_path):
    def make():
        keras.utils.set_random_seed(5)
        return training_data(numbers().shuffle(20).map(add_noise).batch(3), seed=11)

    data = make()
    assert data.note is not None
    assert "random numbers" in data.note
    data.begin_epoch(0)
    iterator = data.iterator()
    trained = [sample // 1000 for _ in range(3) for sample in first_of(next(iterator))]
    state = data.save(tmp_path)
    again = make()
    again.restore(tmp_path, state)
    rest = train(again, 0, 3)
    trained += [sample // 1000 for (epoch, _), batch in rest.items() if epoch == 0 for sample in batch]
    assert sorted(trained) == list(range(20))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (DATASETS["shuffle"], None),
        (DATASETS["cache and shuffle"], None),
        (DATASETS["feed"], None),
        (DATASETS["Python function"], "Python functions"),
        (DATASETS["generator"], "Python generator"),
        (yield_batches, "Python generator"),
        (Batches, "Random numbers"),
    ],
)
def test_what_is_not_exact_is_said(make, words):
    keras.utils.set_random_seed(5)
    note = training_data(make(), seed=1).note
    assert note is None if words is None else words in note


def test_a_shuffle_without_a_seed_is_said():
    tf.random.set_seed(None)
    try:
        dataset = numbers().shuffle(20).batch(3)
    finally:
        tf.random.set_seed(5)
    assert "without a seed" in training_data(dataset, seed=1).note


def test_a_feed_has_one_order_for_a_global_seed():
    orders = []
    for seed in (5, 5, 6):
        keras.utils.set_random_seed(seed)
        orders.append([first_of(batch) for batch in DATASETS["feed"]()])
    assert orders[0] == orders[1] != orders[2]


class Recorder(keras.Model):
    """Records the samples on which it is trained."""

    def __init__(self):
        super().__init__()
        self.weight = self.add_weight(shape=())
        self.samples = tf.Variable(np.zeros(0, np.int64), shape=[None], trainable=False)

    def train_step(self, batch):
        samples = tf.cast(tf.reshape(tf.nest.flatten(batch)[0], [-1]), tf.int64)
        self.samples.assign(tf.concat([self.samples, samples], 0))
        return {"loss": tf.constant(0.0)}


class StepsSeen(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.seen = [self.params["steps"]]

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(epoch)


@pytest.mark.parametrize("kind", ["arrays", "shuffle", "PyDataset", "feed", "endless dataset", "Python generator"])
def test_fit_trains_on_the_same_batches(kind):
    model = Recorder()
    model.compile()
    data, seen = make_data(kind), StepsSeen()
    model.fit(ResumableAdapter(data), epochs=EPOCHS, verbose=0, callbacks=[seen])
    expected_data = make_data(kind)
    # Keras ends an epoch before the first one.
    expected_data.end_epoch()
    assert model.samples.numpy().tolist() == [each for batch in train(expected_data).values() for each in batch]
    assert seen.seen == [data.steps, *range(EPOCHS)]


def test_fit_starts_at_a_position():
    model = Recorder()
    model.compile()
    with pytest.warns(UserWarning, match="ran out of data"):
        # The caller would make Keras run through the first four steps.
        model.fit(ResumableAdapter(make_data("arrays"), epoch=1, step=4), epochs=1, verbose=0)
    drawn = train(make_data("arrays"))
    assert model.samples.numpy().tolist() == [each for step in range(4, 7) for each in drawn[1, step]]


CHILD = """
import json, pathlib, sys
from tests.tf.test_train_data import make_data, train

kind, folder, wanted = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
data, position = make_data(kind), (0, 0)
if (folder / "state.json").exists():
    data.restore(folder, json.loads((folder / "state.json").read_text()))
    position = tuple(wanted)
    save = None
else:
    def save(data, *position):
        if position == tuple(wanted):
            (folder / "state.json").write_text(json.dumps(data.save(folder)))
print(json.dumps([[*place, batch] for place, batch in train(data, *position, save=save).items()]))
"""


@pytest.mark.parametrize(("kind", "position"), [("interleave", (1, 5)), ("a large buffer", (1, 3)), ("feed", (1, 4))])
def test_another_process_continues(kind, position, tmp_path):
    results = []
    for _ in range(2):
        child = subprocess.run(
            [sys.executable, "-c", CHILD, kind, str(tmp_path), json.dumps(position)],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(["src", ".", "tests/tf"])},
        )
        results.append({(epoch, step): batch for epoch, step, batch in json.loads(child.stdout)})
    undisturbed, rest = results
    assert len(undisturbed) > len(rest) > 0
    assert rest == {place: batch for place, batch in undisturbed.items() if place >= position}


def test_keras_layers_that_draw_numbers_in_a_dataset_are_noted():
    layer = keras.layers.GaussianNoise(0.1)
    data = tf.data.Dataset.from_tensor_slices(np.zeros((4, 2), "float32")).batch(2)
    note = training_data(data.map(lambda batch: layer(batch, training=True)), seed=1).note
    assert note is not None
    assert "random numbers" in note
    assert training_data(data.map(lambda batch: layer(batch, training=False)), seed=1).note is None
