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
from keras.src.trainers.data_adapters import get_data_adapter

import lowtide as lt
from lowtide.tf.train.data import dataset_data
from lowtide.tf.train.data.adapter import ResumableAdapter, make_example
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


def add_noise_to_some(number):
    return tf.cond(number > 5, lambda: add_noise(number), lambda: number)


def double_in_python(number):
    return tf.ensure_shape(tf.py_function(lambda each: each * 2, [number], tf.int64), ())


def generate():
    """A generator that shuffles with the global generator of NumPy, as many do."""
    for start in (0, 10):
        yield from start + np.random.permutation(10).astype(np.int64)


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
    "samples of two": lambda: Data.sample_from_datasets([numbers(10), Data.range(20, 30)], seed=3).batch(3),
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
    # No more than are trained: what reads ahead would draw random numbers during the next run of the test.
    for number in range(4 * EPOCHS):
        yield (3 * number + np.random.permutation(3),)


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
        if data.steps is not None:
            # As Keras does.
            data.make_unused_iterator()
        data.end_epoch()
        epoch, step = epoch + 1, 0
        if save is not None and epoch < EPOCHS:
            save(data, epoch, 0)
    return drawn


def check_epochs(drawn, times):
    """Each epoch has each of its samples as often as that."""
    for number in range(EPOCHS):
        samples = [sample for (epoch, _), batch in drawn.items() if epoch == number for sample in batch]
        assert len(samples) > 12
        assert len(samples) == times * len(set(samples))


@pytest.mark.parametrize("kind", KINDS)
def test_every_position_continues_as_if_there_had_been_no_restart(kind, tmp_path):
    undisturbed = train(make_data(kind))
    if kind not in ("zip", "samples of two") and "steps_per_epoch" not in KINDS[kind]():
        check_epochs(undisturbed, 2 if "repeat" in kind else 1)
    states = []

    def save(data, epoch, step):
        folder = tmp_path / str(len(states))
        folder.mkdir()
        states.append((epoch, step, folder, json.dumps(data.save(folder)), read_generators()))

    assert train(make_data(kind), save=save) == undisturbed
    for epoch, step, folder, state, generators in states[:: max(len(states) // 6, 1)]:
        data = make_data(kind)
        # A checkpoint also has the global generators.
        set_generators(generators)
        data.restore(folder, json.loads(state))
        rest = {place: batch for place, batch in undisturbed.items() if place >= (epoch, step)}
        assert train(data, epoch, step) == rest, (epoch, step)


@pytest.mark.parametrize("kind", ["shuffle", "a large buffer", "PyDataset", "feed", "Python generator"])
def test_a_position_is_saved_again_before_the_next_batch(kind, tmp_path):
    undisturbed = train(make_data(kind))
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    state, data = {}, make_data(kind)

    def save(data, *position):
        if position == (1, 2):
            state.update(data.save(folders[0]))

    train(data, save=save)
    data = make_data(kind)
    data.restore(folders[0], state)
    data.begin_epoch(1, 2)
    again = data.save(folders[1])
    data = make_data(kind)
    data.restore(folders[1], again)
    assert train(data, 1, 2) == {place: batch for place, batch in undisturbed.items() if place >= (1, 2)}


@pytest.mark.parametrize("is_cached_first", [False, True])
def test_a_complete_cache_in_a_file_is_read_after_a_restart(is_cached_first, tmp_path):
    def make(name):
        keras.utils.set_random_seed(5)
        cache = str(tmp_path / name)
        first = numbers().cache(cache).shuffle(20) if is_cached_first else numbers().shuffle(20).cache(cache)
        return training_data(first.batch(3), seed=1)

    undisturbed = train(make("other"))

    def save(data, *position):
        if position == (1, 4):
            (tmp_path / "state").mkdir()
            (tmp_path / "state.json").write_text(json.dumps(data.save(tmp_path / "state")))

    assert train(make("cache"), save=save) == undisturbed
    data = make("cache")
    data.restore(tmp_path / "state", json.loads((tmp_path / "state.json").read_text()))
    assert train(data, 1, 4) == {place: batch for place, batch in undisturbed.items() if place >= (1, 4)}


def test_a_state_that_is_too_large_is_not_written(monkeypatch, tmp_path):
    monkeypatch.setattr(dataset_data, "_MOST_STATE_BYTES", 0)
    undisturbed = train(make_data("shuffle"))
    data = make_data("shuffle")
    data.begin_epoch(0)
    for _ in range(4):
        next(data.iterator())
    state = data.save(tmp_path)
    assert not (tmp_path / "iterator").exists()
    data = make_data("shuffle")
    data.restore(tmp_path, state)
    assert train(data, 0, 4) == {place: batch for place, batch in undisturbed.items() if place >= (0, 4)}


def test_a_state_of_a_pipeline_with_other_options_is_replaced_by_skipping(tmp_path):
    def make(is_prefetched):
        keras.utils.set_random_seed(5)
        options = tf.data.Options()
        # The stage that TensorFlow adds is part of the names in the state.
        options.experimental_optimization.inject_prefetch = is_prefetched
        return training_data(DATASETS["shuffle"]().with_options(options), seed=1)

    undisturbed, data = train(make(True)), make(True)
    data.begin_epoch(0)
    for _ in range(4):
        next(data.iterator())
    state = data.save(tmp_path)
    assert state["has_iterator"]
    data = make(False)
    data.restore(tmp_path, state)
    assert train(data, 0, 4) == {place: batch for place, batch in undisturbed.items() if place >= (0, 4)}


@pytest.mark.parametrize("kind", ["arrays", "PyDataset", "shuffle", "feed"])
def test_epochs_have_different_orders(kind):
    drawn = train(make_data(kind))
    epochs = [[batch for place, batch in drawn.items() if place[0] == epoch] for epoch in range(EPOCHS)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


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


def test_a_cache_in_a_file_that_was_being_written_is_written_again(tmp_path):
    def make():
        keras.utils.set_random_seed(5)
        return training_data(numbers().shuffle(20).cache(str(tmp_path / "cache")).batch(3), seed=1)

    data = make()
    data.begin_epoch(0)
    trained = [first_of(next(data.iterator())) for _ in range(2)]
    (tmp_path / "state").mkdir()
    state = data.save(tmp_path / "state")
    for path in tmp_path.glob("cache*"):
        path.unlink()
    # What a process leaves that was killed.
    (tmp_path / "cache_0.lockfile").touch()
    again = make()
    again.restore(tmp_path / "state", state)
    rest = train(again, 0, 2)
    epochs = [[batch for place, batch in rest.items() if place[0] == epoch] for epoch in range(EPOCHS)]
    assert sorted(sample for batch in trained + epochs[0] for sample in batch) == list(range(20))
    assert trained + epochs[0] == epochs[1] == epochs[2]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (DATASETS["shuffle"], None),
        (DATASETS["cache and shuffle"], None),
        (DATASETS["feed"], None),
        (DATASETS["Python function"], "Python functions"),
        (lambda: numbers().map(add_noise_to_some).batch(3), "random numbers"),
        (DATASETS["generator"], "Python generator"),
        (lambda: numbers().map(plus(1), num_parallel_calls=2, deterministic=False).cache(), "no fixed order"),
        (yield_batches, "Python generator"),
        (Batches, "random numbers"),
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


# Of a pipeline of unknown length an epoch is never cut short.
AS_KERAS = [kind for kind in KINDS if not kind.startswith(("PyDataset", "feed with", "unknown length"))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", AS_KERAS)
def test_a_seeded_script_trains_on_the_batches_of_plain_keras(kind):
    samples = []
    for is_plain in (True, False):
        model = Recorder()
        model.compile()
        keras.utils.set_random_seed(5)
        given = KINDS[kind]()
        if not is_plain:
            given = {"x": ResumableAdapter(training_data(**given, seed=11, as_keras=True))}
        model.fit(**given, epochs=EPOCHS, verbose=0)
        samples.append(model.samples.numpy().tolist())
    assert samples[0] == samples[1]


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


@pytest.mark.parametrize(("kind", "position"), [("interleave", (1, 5)), ("a large buffer", (1, 3))])
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


def array_cases():
    rows = np.arange(10, dtype=np.float64)
    sparse = tf.sparse.from_dense(np.eye(10, dtype=np.float32))
    ragged = tf.RaggedTensor.from_row_lengths(np.arange(45), np.arange(10))
    return {
        "nested": {"x": {"a": rows, "b": [rows, np.ones((10, 2))]}, "y": rows},
        "sparse": {"x": sparse, "y": rows},
        "ragged": {"x": ragged},
        "texts": {"x": np.array([str(each) for each in range(10)], dtype=object)},
        "weights of samples": {"x": rows, "y": rows, "sample_weight": rows},
        "weights of classes": {"x": rows, "y": np.arange(10) % 2, "class_weight": {0: 1.0, 1: 3.0}},
        "full batches": {"x": rows[:9], "y": rows[:9]},
        "steps": {"x": rows, "batch_size": None, "steps_per_epoch": 4},
    }


@pytest.mark.parametrize("case", array_cases())
def test_arrays_are_batched_as_keras_does(case):
    given = {"batch_size": 3, **array_cases()[case]}
    keras_dataset = get_data_adapter(**given, shuffle=False).get_tf_dataset()
    data = training_data(**given, shuffle=False, seed=1)
    assert data.element_spec == keras_dataset.element_spec
    data.begin_epoch(0)
    pairs = list(zip(data.iterator(), keras_dataset, strict=True))
    assert len(pairs) == data.steps
    for batch, expected in pairs:
        for one, other in zip(tf.nest.flatten(batch, True), tf.nest.flatten(expected, True), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def test_shuffled_batches_keep_their_samples():
    data = make_data("arrays, batches shuffled")
    for (_, step), batch in train(data).items():
        assert sorted(batch) == ROWS[3 * step : 3 * step + 3].tolist()
    assert (
        len({str(batch) for (_, step), batch in train(make_data("arrays, batches shuffled")).items() if not step}) > 1
    )


def test_a_callback_and_a_bookmark_of_the_user_count_on_after_a_restart(tmp_path):
    def make():
        keras.utils.set_random_seed(5)
        bookmark = lt.feed.Bookmark(tmp_path / "bookmark.json", every=1)
        dataset = lt.feed.arrays(ROWS, batch_size=3, shuffle=True, budget="1MiB", bookmark=bookmark)
        return bookmark, training_data(dataset, seed=1)

    bookmark, data = make()
    bookmark.move_to(1, 4)
    state = data.save(tmp_path)
    undisturbed = train(make()[1])
    bookmark.move_to(1, 4)
    bookmark, data = make()
    data.restore(tmp_path, state)
    bookmark.set_params({"steps": 7, "epochs": 3})
    bookmark.on_epoch_begin(1)
    data.begin_epoch(1, 4)
    for number, batch in enumerate(data.iterator(), 4):
        assert first_of(batch) == undisturbed[1, number]
        bookmark.on_train_batch_end(number)
        assert (bookmark.epoch, bookmark.step) == (1, number + 1)
    bookmark.on_epoch_end(1)
    assert (bookmark.epoch, bookmark.step) == (2, 0)


def test_weights_of_classes_of_a_dataset():
    dataset = Data.from_tensor_slices((np.arange(6), np.arange(6) % 2)).batch(2)
    data = training_data(dataset, class_weight={0: 1.0, 1: 3.0}, seed=1)
    data.begin_epoch(0)
    assert [batch[2].numpy().tolist() for batch in data.iterator()] == [[1, 3]] * 3


class RecordedBatches(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.read = []

    def __len__(self):
        return 4

    def __getitem__(self, number):
        self.read.append(number)
        return np.full((3, 2), number, np.float32), np.ones(3, np.float32)


def test_the_batch_that_builds_a_model_under_a_strategy_is_none_of_the_data():
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    batches = RecordedBatches()
    model.fit(ResumableAdapter(training_data(batches, seed=1), strategy=strategy), epochs=2, verbose=0)
    assert model.optimizer.iterations == 8
    # The first two show what all look like.
    assert [sorted(batches.read[low:high]) for low, high in ((0, 2), (2, 6), (6, None))] == [
        [0, 1],
        *[[0, 1, 2, 3]] * 2,
    ]


def test_several_replicas_are_refused():
    class TwoReplicas:
        num_replicas_in_sync = 2

    with pytest.raises(lt.LowtideError, match="several replicas"):
        ResumableAdapter(make_data("arrays"), strategy=TwoReplicas())


@pytest.mark.parametrize(
    "spec",
    [
        {"a": tf.TensorSpec((None, 3)), "b": (tf.TensorSpec((2,), tf.string), tf.TensorSpec((None,), tf.int64))},
        tf.SparseTensorSpec((None, 3)),
        tf.RaggedTensorSpec((None, None), tf.int32, ragged_rank=1),
    ],
)
def test_an_example_has_the_structure_of_the_batches(spec):
    example = make_example(spec).element_spec
    tf.nest.assert_same_structure(example, spec, expand_composites=True)
    for one, other in zip(tf.nest.flatten(example), tf.nest.flatten(spec), strict=True):
        assert other.is_compatible_with(one) or other.shape.is_compatible_with(one.shape)
        assert one.dtype == other.dtype
