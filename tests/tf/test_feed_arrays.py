"""Datasets over arrays in files: every sample once, in any format, after a restart, and within the budget."""

import gc
import subprocess
import sys
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt
from tests.tf.label_recorder import LabelRecorder, TrainingEnded

COUNT = 300


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    return random.normal(size=(COUNT, 3, 2)).astype(np.float32), np.arange(COUNT)


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    """The same arrays in every format that is read."""
    import h5py
    import zarr

    x, y = rows
    folder = tmp_path_factory.mktemp("arrays")
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    np.save(folder / "columns.npy", np.asfortranarray(x))
    np.savez(folder / "set.npz", x=x, y=y)
    np.savez_compressed(folder / "compressed.npz", x=x, y=y)
    with h5py.File(folder / "set.h5", "w") as file:
        file["train/x"], file["train/y"] = x, y
        file.create_dataset("chunked", data=x, chunks=(16, 3, 2), compression="gzip")
    group = zarr.open_group(folder / "set.zarr", mode="w")
    group.create_array("x", data=x, chunks=(16, 3, 2))
    group.create_array("y", data=y, chunks=(50,))
    return folder


def labels(dataset):
    return np.concatenate([batch[-1].numpy() for batch in dataset])


SETS = {
    "npy": ("x.npy", "y.npy"),
    "in columns": ("columns.npy", "y.npy"),
    "npz": ("set.npz", "set.npz"),
    "npz compressed": ("compressed.npz", "compressed.npz"),
    "hdf5": ("set.h5:train/x", "set.h5:train/y"),
    "hdf5 in chunks": ("set.h5:chunked", "y.npy"),
    "zarr": ("set.zarr", "set.zarr"),
}


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", SETS)
def test_every_row_is_read_once_with_its_label(files, rows, kind, shuffle):
    x, y = (str(files / name) for name in SETS[kind])
    dataset = lt.feed.arrays(x, y, batch_size=32, shuffle=shuffle, seed=5, budget="64KiB")
    assert len(dataset) == 10
    seen = []
    for images, numbers in dataset:
        np.testing.assert_array_equal(images.numpy(), rows[0][numbers.numpy()])
        seen += numbers.numpy().tolist()
    assert sorted(seen) == list(range(COUNT))
    assert (seen == list(range(COUNT))) is not shuffle
    if shuffle:
        assert labels(dataset).tolist() != seen
        description = lt.feed.describe(dataset)
        assert ("two levels" in description) == (kind in ("hdf5 in chunks", "zarr"))


def test_the_same_seed_gives_the_same_epochs(files):
    def epochs():
        dataset = lt.feed.arrays(files / "x.npy", files / "y.npy", batch_size=7, shuffle=True, seed=3, budget="1MiB")
        return [labels(dataset).tolist() for _ in range(3)]

    assert epochs() == epochs()


def test_structures_and_arrays_in_memory(files, rows):
    x, y = rows
    dataset = lt.feed.arrays({"image": x, "again": files / "x.npy"}, (y, y), batch_size=8, budget="1MiB")
    inputs, outputs = next(iter(dataset))
    assert inputs["image"].shape == inputs["again"].shape == (8, 3, 2)
    assert outputs[1].numpy().tolist() == list(range(8))
    (alone,) = lt.feed.arrays(x, batch_size=300, budget="1MiB")
    np.testing.assert_array_equal(alone.numpy(), x)
    dropped = lt.feed.arrays(x, y, y, batch_size=64, budget="1MiB", drop_remainder=True)
    assert dropped.element_spec[0].shape == (64, 3, 2)
    assert [len(batch[0]) for batch in dropped] == [64] * 4


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("budget", ["4KiB", "16KiB", "1MiB"])
@pytest.mark.parametrize("step", [0, 3])
def test_runs_of_batches_are_cut_where_batches_end(files, budget, drop, step):
    # The smallest budget has no room for runs.
    bookmark = lt.feed.Bookmark()
    bookmark.move_to(0, step)
    dataset = lt.feed.arrays(
        files / "x.npy", files / "y.npy", batch_size=16, budget=budget, drop_remainder=drop, bookmark=bookmark
    )
    batches = [numbers.numpy().tolist() for _, numbers in dataset]
    whole = [list(range(low, min(low + 16, COUNT))) for low in range(0, COUNT, 16)]
    assert batches == whole[step : -1 if drop else None]
    assert dataset.element_spec[0].shape.as_list() == [16 if drop else None, 3, 2]


def test_shards_read_disjoint_parts(files):
    def part(shard):
        return lt.feed.arrays(files / "y.npy", batch_size=16, shuffle=True, seed=1, shard=shard, budget="1MiB")

    parts = [np.concatenate([batch.numpy() for batch in part((index, 4))]) for index in range(4)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(COUNT))
    context = tf.distribute.InputContext(num_input_pipelines=4, input_pipeline_id=2)
    assert [batch.numpy().tolist() for batch in part(context)] == [batch.numpy().tolist() for batch in part((2, 4))]
    for wrong in ((4, 4), 4, (0,), ("0", "4")):
        with pytest.raises(lt.LowtideError, match="no such shard"):
            part(wrong)


def test_an_iterator_continues_from_a_checkpoint(files, tmp_path):
    dataset = lt.feed.arrays(files / "x.npy", files / "y.npy", batch_size=32, shuffle=True, seed=2, budget="64KiB")
    labels(dataset)
    iterator = iter(dataset)
    for _ in range(4):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "checkpoint"))
    rest = [batch[1].numpy().tolist() for batch in iterator]
    again = iter(dataset)
    tf.train.Checkpoint(iterator=again).restore(path)
    assert [batch[1].numpy().tolist() for batch in again] == rest


MADE_OF = {
    "an iterator": iter,
    "another dataset": lambda data: data.map(lambda x, y: (x, y)).take(10),
    "one of two": lambda data: tf.data.Dataset.sample_from_datasets([data], seed=1),
    "an element of another": lambda data: data.repeat(1).filter(lambda x, y: True),
}


@pytest.mark.parametrize("kind", MADE_OF)
def test_what_is_made_of_a_dataset_keeps_it(files, kind):
    made = MADE_OF[kind](lt.feed.arrays(files / "x.npy", files / "y.npy", batch_size=32, budget="1MiB"))
    for _ in range(3):
        gc.collect()
    assert labels(made).tolist() == list(range(COUNT))


def test_a_dataset_that_is_made_within_another(files):
    within = tf.data.Dataset.range(2).flat_map(
        lambda _: lt.feed.arrays(files / "x.npy", files / "y.npy", batch_size=32, budget="1MiB")
    )
    for _ in range(3):
        gc.collect()
    assert labels(within).tolist() == [*range(COUNT), *range(COUNT)]


def test_a_dataset_that_is_gone_holds_nothing(rows):
    x = rows[0].copy()
    held = weakref.ref(x)
    data = lt.feed.arrays(x, batch_size=32, shuffle=True, budget="1MiB", on_error="skip").map(lambda x: x)
    assert len(list(data)) == 10
    del x, data
    for _ in range(3):
        gc.collect()
    assert held() is None


@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_after_a_restart_fit_continues_with_the_next_batch(files, tmp_path, steps_per_execution):
    seen: list[list[int]] = []

    def train(until=None):
        bookmark = lt.feed.Bookmark(tmp_path / "bookmark.json", every=steps_per_execution)
        data = lt.feed.arrays(
            files / "x.npy", files / "y.npy", batch_size=32, shuffle=True, budget="1MiB", bookmark=bookmark
        )

        def stop(batch, logs):
            if until is not None and len(seen) >= until:
                raise TrainingEnded

        model = LabelRecorder(seen.append)
        model.compile("sgd", "mse", steps_per_execution=steps_per_execution)
        killer = keras.callbacks.LambdaCallback(on_train_batch_end=stop)
        # Keras warns of its own default that datasets are not shuffled by it.
        first = bookmark.epoch
        model.fit(data, initial_epoch=first, epochs=3, shuffle=False, callbacks=[bookmark, killer], verbose=0)

    with pytest.raises(TrainingEnded):
        train(until=14)
    train()
    flat = [number for batch in seen for number in batch]
    epochs = [flat[low : low + COUNT] for low in range(0, len(flat), COUNT)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(COUNT))] * 3
    assert epochs[0] != epochs[1]


def test_a_custom_loop_follows_a_bookmark(files, tmp_path):
    def make():
        bookmark = lt.feed.Bookmark()
        return bookmark, tf.train.Checkpoint(bookmark=bookmark)

    bookmark, checkpoint = make()
    data = lt.feed.arrays(files / "y.npy", batch_size=50, shuffle=True, budget="1MiB", bookmark=bookmark)
    used = []
    for number, batch in enumerate(bookmark.follow(data)):
        used += batch.numpy().tolist()
        if number == 2:
            # This batch is used: the next one is asked for after the checkpoint.
            bookmark.move_to(bookmark.epoch, bookmark.step + 1)
            path = checkpoint.save(str(tmp_path / "checkpoint"))
            break
    other, again = make()
    again.restore(path)
    data = lt.feed.arrays(files / "y.npy", batch_size=50, shuffle=True, budget="1MiB", bookmark=other)
    used += [number for batch in other.follow(data) for number in batch.numpy().tolist()]
    assert sorted(used) == list(range(COUNT))
    assert (other.epoch, other.step) == (1, 0)
    with pytest.raises(lt.LowtideError, match="another order"):
        lt.feed.arrays(files / "y.npy", batch_size=50, shuffle=True, seed=1, budget="1MiB", bookmark=other)
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(lt.LowtideError, match="not a bookmark"):
        lt.feed.Bookmark(tmp_path / "broken.json")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": "nowhere.npy"}, "no file for x"),
        ({"x": "set.h5"}, "which array of"),
        ({"x": "x.npy", "y": "short.npy"}, "differ in length"),
        ({"x": "cut.npy"}, "cannot be read"),
        ({"x": "text.txt"}, "unknown type"),
        ({"x": "objects.npy"}, "holds Python objects.*astype"),
        ({"x": "scalar.npy"}, "single number"),
        ({"x": 3}, "not an array"),
        ({"x": "x.npy", "batch_size": 0}, "at least one"),
        ({"x": "x.npy", "batch_size": 1.5}, "whole number of samples"),
        ({"x": "x.npy", "budget": "1KiB"}, "at least 2.25 KiB"),
    ],
)
def test_unsupported_data_is_refused_with_a_cure(files, given, message):
    np.save(files / "short.npy", np.arange(7))
    np.save(files / "scalar.npy", np.float32(3))
    np.save(files / "objects.npy", np.array([{}]), allow_pickle=True)
    (files / "cut.npy").write_bytes((files / "x.npy").read_bytes()[:-5])
    (files / "text.txt").write_text("1 2 3")
    given = {"batch_size": 32, "budget": "1MiB"} | given
    paths = {
        key: str(files / value) if key in "xy" and isinstance(value, str) else value for key, value in given.items()
    }
    with pytest.raises(lt.LowtideError, match=message):
        lt.feed.arrays(**paths)


def test_a_batch_size_may_be_a_number_of_numpy(files):
    data = lt.feed.arrays(str(files / "y.npy"), batch_size=np.int64(32), shuffle=True, budget="1MiB")
    assert next(iter(data)).shape == (32,)


MEMORY = """
import resource, sys
import numpy as np, tensorflow as tf
import lowtide as lt

def own():
    lines = dict(line.split(":") for line in open("/proc/self/status") if ":" in line)
    return int(lines["RssAnon"].split()[0]) * 1024

path, shuffle = sys.argv[1], sys.argv[2] == "shuffled"
data = lt.feed.arrays(path, batch_size=16, shuffle=shuffle, budget="24MiB")
iterator = iter(data)
next(iterator)
base, highest = own(), 0
for batch in iterator:
    highest = max(highest, own())
print(highest - base)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc")
@pytest.mark.parametrize("how", ["shuffled", "in turn"])
def test_a_set_larger_than_its_budget_stays_within_it(tmp_path, how):
    # 512 MiB that take no room on the disk.
    rows = np.lib.format.open_memmap(tmp_path / "large.npy", "w+", np.float32, (2048, 256, 256))
    del rows
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "large.npy"), how]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert grown <= 24 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc")
@pytest.mark.parametrize("how", ["shuffled", "in turn"])
def test_chunks_that_are_decoded_stay_within_the_budget(tmp_path, how):
    import h5py

    with h5py.File(tmp_path / "large.h5", "w") as file:
        file.create_dataset("x", (6_000, 64, 64), np.float32, chunks=(50, 64, 64), compression="gzip", fillvalue=0)
        file["x"][::50] = np.random.default_rng(0).random((120, 64, 64), np.float32)
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "large.h5"), how]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert grown <= 24 << 20
