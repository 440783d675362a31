"""Restarts and shards: whatever the counts, nothing is lost and nothing comes twice."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide as lt
from tests.tf.label_recorder import LabelRecorder, TrainingEnded


def flat(batches):
    return [number for batch in batches for number in tf.nest.flatten(batch)[-1].numpy().tolist()]


COUNTS = st.integers(1, 40)
BATCHES = st.integers(1, 12)


@settings(deadline=None, max_examples=8)
@given(count=COUNTS, batch=BATCHES, shards=st.integers(1, 5), drop=st.booleans(), shuffle=st.booleans())
def test_shards_are_disjoint_and_cover_the_set(count, batch, shards, drop, shuffle):
    rows = np.arange(count)
    seen = []
    for index in range(shards):
        part = lt.feed.arrays(
            rows, batch_size=batch, budget="1MiB", shuffle=shuffle, seed=3, shard=(index, shards), drop_remainder=drop
        )
        batches = list(part)
        assert len(batches) == len(part)
        own = -(-(count - index) // shards) if index < count else 0
        assert len(flat(batches)) == (own // batch * batch if drop else own)
        seen += flat(batches)
    assert len(set(seen)) == len(seen)
    assert drop or sorted(seen) == list(range(count))


def lacking(count):
    """The samples of a table that have no label."""
    return {number for number in range(count) if number % 7 == 3}


def make_feed(kind, folder, count, batch, drop, bookmark):
    options = {"batch_size": batch, "budget": "1MiB", "shuffle": True, "drop_remainder": drop, "bookmark": bookmark}
    if kind == "arrays":
        return lt.feed.arrays(np.arange(count), **options)
    if kind == "generator":
        return lt.feed.generator(lambda: range(count), tf.TensorSpec((), tf.int64), **options)
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"{count}.parquet"
    if not path.exists():
        values = [None if number in lacking(count) else number for number in range(count)]
        pq.write_table(pa.table({"y": pa.array(values, pa.int64())}), path, row_group_size=5)
    return lt.feed.table([str(path)], on_error="skip", **options)


@pytest.mark.parametrize("kind", ["arrays", "generator", "rows left out"])
def test_a_restart_loses_nothing_and_repeats_nothing(kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("restart")

    @settings(deadline=None, max_examples=6)
    @given(count=COUNTS, batch=BATCHES, drop=st.booleans(), stops=st.lists(st.integers(0, 6), min_size=1, max_size=4))
    def check(count, batch, drop, stops):
        path = folder / "bookmark.json"
        path.unlink(missing_ok=True)
        seen: dict[int, list[int]] = {}
        for stop in [*stops, None]:
            bookmark = lt.feed.Bookmark(path, every=1)
            data = make_feed(kind, folder, count, batch, drop, bookmark)
            left = stop
            while bookmark.epoch < 3 and left != 0:
                for used in bookmark.follow(data):
                    # It is used now, and counts as soon as the next one is asked for.
                    seen.setdefault(bookmark.epoch, []).extend(flat([used]))
                    left = None if left is None else left - 1
                    if left == 0:
                        bookmark.move_to(bookmark.epoch, bookmark.step + 1)
                        break
        expected = set(range(count)) - (lacking(count) if kind == "rows left out" else set())
        for epoch in seen.values():
            assert len(set(epoch)) == len(epoch)
            assert set(epoch) <= expected
            if not drop:
                assert set(epoch) == expected
        if kind == "arrays" and drop and count >= batch:
            assert [len(epoch) for epoch in seen.values()] == [count // batch * batch] * 3
        if not drop and expected:
            assert sorted(seen) == [0, 1, 2]

    check()


@settings(deadline=None, max_examples=4)
@given(count=st.integers(2, 40), batch=st.integers(1, 6), data=st.data())
def test_a_bookmark_and_a_checkpoint_agree(count, batch, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    steps = -(-count // batch)
    stop = data.draw(st.integers(1, steps))
    bookmark = lt.feed.Bookmark()
    given_to_both = {"batch_size": batch, "shuffle": True, "seed": 5, "budget": "1MiB"}
    followed = lt.feed.arrays(np.arange(count), bookmark=bookmark, **given_to_both)
    plain = lt.feed.arrays(np.arange(count), **given_to_both)
    iterator = iter(plain)
    for _ in range(stop):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(folder / "state"))
    again = iter(lt.feed.arrays(np.arange(count), **given_to_both))
    tf.train.Checkpoint(iterator=again).restore(path)
    rest = flat(again)
    bookmark.move_to(0, stop)
    expected = flat(plain.take(0)) if stop == steps else flat(followed)
    assert rest == expected
    assert len(rest) == max(count - stop * batch, 0)


CHILD = """
import json, sys
import numpy as np
import lowtide as lt

data = lt.feed.arrays(np.arange(50), batch_size=7, shuffle=True, seed=11, budget="1MiB")
generated = lt.feed.generator(
    lambda: range(50), __import__("tensorflow").TensorSpec((), "int64"), batch_size=7, shuffle=True, seed=11,
    budget="1MiB",
)
epochs = [[b.numpy().tolist() for b in each] for each in (data, data, generated, generated)]
print(json.dumps(epochs))
"""


def test_the_order_from_a_seed_is_the_same_in_another_process():
    child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    given = {"batch_size": 7, "shuffle": True, "seed": 11, "budget": "1MiB"}
    data = lt.feed.arrays(np.arange(50), **given)
    generated = lt.feed.generator(lambda: range(50), tf.TensorSpec((), tf.int64), **given)
    here = [[batch.numpy().tolist() for batch in each] for each in (data, data, generated, generated)]
    assert json.loads(child.stdout) == here


SAMPLES, EPOCHS = 50, 3


def feed_pairs(kind, folder, bookmark):
    options = {"batch_size": 8, "budget": "1MiB", "shuffle": True, "bookmark": bookmark}
    x = np.zeros((SAMPLES, 2), np.float32)
    if kind == "generator":
        spec = (tf.TensorSpec((2,), tf.float32), tf.TensorSpec((), tf.int64))
        return lt.feed.generator(lambda: zip(x, range(SAMPLES), strict=True), spec, **options)
    if kind == "mapped":
        data = lt.feed.arrays(x, np.arange(SAMPLES), **options)
        return data.map(lambda x, y: (x + 1, y)).prefetch(1)
    data = make_feed("rows left out", folder, SAMPLES, 8, False, bookmark)
    return data.map(lambda columns: (tf.zeros((tf.shape(columns["y"])[0], 2)), columns["y"]))


@pytest.mark.parametrize(
    ("kind", "steps_per_execution", "until"),
    [
        ("mapped", 1, 3),
        ("mapped", 4, 9),
        # Behind the last batch of an epoch that is not over yet.
        ("mapped", 1, 7),
        ("generator", 1, 7),
        ("generator", 4, 9),
        ("rows left out", 1, 3),
        ("rows left out", 1, 9),
    ],
)
def test_fit_continues_in_a_new_model(tmp_path, kind, steps_per_execution, until):
    seen: list[list[int]] = []

    def train(until=None):
        bookmark = lt.feed.Bookmark(tmp_path / "bookmark.json", every=1)
        data = feed_pairs(kind, tmp_path, bookmark)

        def stop(batch, logs):
            if until is not None and len(seen) >= until:
                raise TrainingEnded

        model = LabelRecorder(seen.append)
        model.compile("sgd", "mse", steps_per_execution=steps_per_execution)
        killer = keras.callbacks.LambdaCallback(on_train_batch_end=stop)
        checked = lt.feed.arrays(np.zeros((20, 2), np.float32), np.zeros(20), batch_size=8, budget="1MiB")
        model.fit(
            data,
            initial_epoch=bookmark.epoch,
            epochs=EPOCHS,
            shuffle=False,
            validation_data=checked,
            callbacks=[bookmark, killer],
            verbose=0,
        )
        return bookmark

    with pytest.raises(TrainingEnded):
        train(until)
    bookmark = train()
    assert (bookmark.epoch, bookmark.step) == (EPOCHS, 0)
    broken = lacking(SAMPLES) if kind == "rows left out" else set()
    whole = sorted(set(range(SAMPLES)) - broken)
    found = [number for batch in seen for number in batch]
    epochs = [found[low : low + len(whole)] for low in range(0, len(found), len(whole))]
    assert [sorted(epoch) for epoch in epochs] == [whole] * EPOCHS


def test_keras_does_not_shorten_epochs_silently():
    bookmark = lt.feed.Bookmark()
    data = lt.feed.arrays(np.zeros((20, 2), np.float32), np.zeros(20), batch_size=4, budget="1MiB", bookmark=bookmark)
    bookmark.move_to(0, 2)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    filtered = data.filter(lambda x, y: True)
    with pytest.raises(lt.LowtideError, match="as short as the rest of this one"):
        model.fit(filtered, epochs=2, shuffle=False, callbacks=[bookmark], verbose=0)


MIRRORED = """
import json
import numpy as np
import tensorflow as tf
import lowtide as lt

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

def make(context):
    return lt.feed.arrays(
        np.arange(40), batch_size=context.get_per_replica_batch_size(10), shuffle=True, seed=1, shard=context,
        budget="1MiB",
    )

data = strategy.distribute_datasets_from_function(make)
seen = []
for batch in data:
    seen.append([part.numpy().tolist() for part in strategy.experimental_local_results(batch)])
print(json.dumps(seen))
"""


def test_two_replicas_share_an_epoch():
    child = subprocess.run([sys.executable, "-c", MIRRORED], capture_output=True, text=True, check=True)
    seen = json.loads(child.stdout)
    assert [len(replicas) for replicas in seen] == [2] * 4
    assert sorted(number for replicas in seen for part in replicas for number in part) == list(range(40))
