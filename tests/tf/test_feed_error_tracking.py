"""Bad input of every kind: it is named with its place, or left out and counted; no epoch is short without a word."""

import os
import resource
import shutil
import sys
import traceback

import keras
import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt

COUNT = 100


def taken(dataset):
    """The sizes of the batches of an epoch, and the last tensor of each sample."""
    batches = [tf.nest.flatten(batch)[-1].numpy() for batch in dataset]
    return [len(batch) for batch in batches], [value for batch in batches for value in batch.tolist()]


def without(*broken):
    return [number for number in range(COUNT) if number not in broken]


# Arrays.


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(COUNT, 40)).astype(np.float32)


def damaged_hdf5(rows, folder):
    import h5py

    path = folder / "set.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=rows, chunks=(16, 10), compression="gzip")
    with h5py.File(path) as file:
        chunks = [file["x"].id.get_chunk_info(number) for number in range(file["x"].id.get_num_chunks())]
    chunk = next(each for each in chunks if each.chunk_offset == (32, 20))
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(content)
    return f"{path}:x"


def damaged_zarr(rows, folder):
    import zarr

    zarr.create_array(folder / "set.zarr", data=rows, chunks=(16, 40))
    (folder / "set.zarr/c/2/0").write_bytes(b"no chunk")
    return str(folder / "set.zarr")


@pytest.mark.parametrize("make", [damaged_hdf5, damaged_zarr])
def test_a_chunk_that_cannot_be_decoded_is_named_or_left_out(rows, tmp_path, make):
    path = make(rows, tmp_path)
    broken = range(32, 48)
    for shuffle in (False, True):
        given = {"batch_size": 8, "budget": "256KiB", "shuffle": shuffle, "seed": 1}
        with pytest.raises(tf.errors.OpError, match=r"row \d+ of .*set.*: rows 32 to 47 of .* cannot be read"):
            taken(lt.feed.arrays(path, np.arange(COUNT), **given))
        data = lt.feed.arrays(path, np.arange(COUNT), on_error="skip", **given)
        for _ in range(2):
            sizes, seen = taken(data)
            assert sorted(seen) == without(*broken)
            assert sizes == [8] * 10 + [4]
        problems = lt.feed.problems(data)
        assert len(problems) == 16
        assert sorted(int(problem.split()[1]) for problem in problems) == list(broken)
    dropped = lt.feed.arrays(path, np.arange(COUNT), on_error="skip", drop_remainder=True, **given)
    assert dropped.element_spec[0].shape == (8, 40)
    assert set(taken(dropped)[0]) == {8}


def test_a_single_row_that_cannot_be_decoded(rows, tmp_path):
    import zarr

    zarr.create_array(tmp_path / "set.zarr", data=rows, chunks=(1, 40))
    (tmp_path / "set.zarr/c/7/0").write_bytes(b"no chunk")
    data = lt.feed.arrays(tmp_path / "set.zarr", np.arange(COUNT), batch_size=8, budget="1MiB", on_error="skip")
    assert taken(data)[1] == without(7)
    assert "row 7 of" in lt.feed.problems(data)[0]


def test_labels_that_are_not_as_many_as_rows(rows):
    with pytest.raises(lt.LowtideError, match="x has 100 rows, y has 99 rows"):
        lt.feed.arrays(rows, np.arange(COUNT - 1), batch_size=8, budget="1MiB")


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.h5", "x.zarr.zip"])
def test_empty_files_are_named(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(lt.LowtideError, match=f"{name} cannot be read"):
        lt.feed.arrays(tmp_path / name, batch_size=8, budget="1MiB")


# Images.


def test_images_that_are_cut_missing_or_empty(tmp_path):
    paths = [str(tmp_path / f"{number}.jpg") for number in range(12)]
    content = tf.io.encode_jpeg(np.random.default_rng(0).integers(0, 255, (40, 40, 3), np.uint8)).numpy()
    for number, path in enumerate(paths):
        if number != 6:
            with open(path, "wb") as file:
                file.write(content[: len(content) // 2] if number == 2 else b"" if number == 9 else content)
    given = {"size": (8, 8), "batch_size": 4, "budget": "16MiB"}
    with pytest.raises(tf.errors.OpError, match=r"2.jpg"):
        taken(lt.feed.images(paths, np.arange(12), **given))
    data = lt.feed.images(paths, np.arange(12), on_error="skip", **given)
    assert taken(data) == ([4, 4, 1], [0, 1, 3, 4, 5, 7, 8, 10, 11])
    assert [problem.partition(":")[0] for problem in lt.feed.problems(data)] == [paths[2], paths[6], paths[9]]
    with pytest.raises(tf.errors.OpError, match="not one sample can be read"):
        taken(lt.feed.images([paths[2], paths[6]], on_error="skip", **given))
    with pytest.raises(lt.LowtideError, match=r"1.jpg has no label"):
        lt.feed.images(paths, [0, None, *range(10)], **given)


# Records.

FEATURES = {"x": tf.io.FixedLenFeature((2,), tf.float32), "y": tf.io.FixedLenFeature((), tf.int64)}


def example(number, values=(0.0, 0.0), label=True):
    features = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=values))}
    if label is True:
        features["y"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
    elif label is not None:
        features["y"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[label]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


ODD = {
    "another shape": example(3, (1.0, 2.0, 3.0)),
    "another type": example(3, label=b"three"),
    "no label": example(3, label=None),
    "no example": b"\xff\xff nothing of the kind",
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_record_that_is_not_as_the_others(tmp_path, kind, shuffle):
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(COUNT):
            writer.write(ODD[kind] if number == 3 else example(number))
    given = {"features": FEATURES, "label": "y", "batch_size": 8, "budget": "1MiB", "shuffle": shuffle}
    with pytest.raises(tf.errors.OpError, match=r"record 3 of .*a.tfrecord"):
        taken(lt.feed.records([path], **given))
    data = lt.feed.records([path], on_error="skip", **given)
    sizes, seen = taken(data)
    assert (sizes[:-1], sorted(seen)) == ([8] * 12, without(3))
    assert "record 3 of" in lt.feed.problems(data)[0]


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has open is read from /proc")
def test_more_files_of_records_than_can_be_open(tmp_path):
    for number in range(COUNT):
        with tf.io.TFRecordWriter(str(tmp_path / f"{number:03d}.tfrecord")) as writer:
            writer.write(example(number))
    data = lt.feed.records(
        tmp_path / "*.tfrecord", features=FEATURES, label="y", batch_size=8, shuffle=True, budget="1MiB"
    )
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 80, before[1]))
    try:
        assert sorted(taken(data)[1]) == list(range(COUNT))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# Tables.


def write_table(path, content, **options):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(content), path, **options)
    return str(path)


@pytest.fixture
def columns():
    return {"x": np.zeros(COUNT, np.float32), "y": np.arange(COUNT)}


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_without_rows_that_lack_a_label_are_full(tmp_path, columns, shuffle):
    lacking = {"x": columns["x"], "y": [None if number in (3, 50, 98) else number for number in range(COUNT)]}
    path = write_table(tmp_path / "a.parquet", lacking, row_group_size=17)
    given = {"label": "y", "batch_size": 8, "budget": "1MiB", "on_error": "skip", "shuffle": shuffle}
    data = lt.feed.table([path], **given)
    sizes, seen = taken(data)
    assert (sizes, sorted(seen)) == ([8] * 12 + [1], without(3, 50, 98))
    assert len(lt.feed.problems(data)) == 3
    dropped = lt.feed.table([path], drop_remainder=True, **given)
    assert dropped.element_spec[1].shape == (8,)
    assert set(taken(dropped)[0]) == {8}


def test_row_groups_and_files_that_cannot_be_read(tmp_path, columns):
    path = write_table(tmp_path / "a.parquet", columns, row_group_size=25, use_dictionary=False)
    other = tmp_path / "b.parquet"
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[150:200] = bytes(50)
    other.write_bytes(content)
    given = {"label": "y", "batch_size": 8, "budget": "1MiB"}
    with pytest.raises(tf.errors.OpError, match=r"row 0 of .*b.parquet: rows 0 to 24 of .* cannot be read"):
        taken(lt.feed.table([path, str(other)], **given))
    data = lt.feed.table([path, str(other)], on_error="skip", **given)
    assert taken(data)[1] == [*range(COUNT), *range(25, COUNT)]
    assert len(lt.feed.problems(data)) == 25
    other.write_bytes(content[:-20])
    with pytest.raises(lt.LowtideError, match=r"b.parquet cannot be read"):
        lt.feed.table([path, str(other)], **given)
    data = lt.feed.table([path, str(other)], on_error="skip", **given)
    assert taken(data)[1] == list(range(COUNT))
    assert "all of its rows are left out" in lt.feed.problems(data)[0]


def test_files_whose_columns_are_in_another_order(tmp_path, columns):
    paths = [
        write_table(tmp_path / "a.parquet", columns),
        write_table(tmp_path / "b.parquet", {"z": columns["y"], "y": columns["y"], "x": columns["x"]}),
    ]
    data = lt.feed.table(paths, label="y", batch_size=8, budget="1MiB")
    assert taken(data)[1] == [*range(COUNT), *range(COUNT)]
    paths.append(write_table(tmp_path / "c.parquet", {"y": columns["y"]}))
    with pytest.raises(lt.LowtideError, match=r"c.parquet has no column x"):
        lt.feed.table(paths, label="y", batch_size=8, budget="1MiB")


@pytest.mark.parametrize("feed", ["table", "records"])
def test_missing_files(tmp_path, feed):
    given = {"batch_size": 8, "budget": "1MiB"} | ({"features": FEATURES} if feed == "records" else {})
    with pytest.raises(lt.LowtideError, match="nowhere does not exist"):
        getattr(lt.feed, feed)([str(tmp_path / "nowhere")], **given)
    with pytest.raises(lt.LowtideError, match="is a folder"):
        getattr(lt.feed, feed)(tmp_path, **given)


# Generators.

SPEC = (tf.TensorSpec((4,), tf.float32), tf.TensorSpec((), tf.int32))
STRANGE = {
    "shape": ((np.zeros(5, np.float32), 5), r"shape \(5,\) for \(4,\)"),
    "type": ((np.zeros(4), "five"), "<U4 for int32"),
    "fraction": ((np.zeros(4), 5.5), "float64 whose numbers int32 cannot hold"),
    "large": ((np.zeros(4), 1 << 40), "int64 whose numbers int32 cannot hold"),
    "parts": ((np.zeros(4), 5, 6), "has 3 parts for 2 parts"),
    "structure": (np.zeros(4), "is one ndarray for 2 parts"),
    "nothing": ((np.zeros(4), None), "object for int32"),
    "lengths": (([1, [2], 3, 4], 5), "different lengths"),
}


def make_with(odd):
    def make():
        for number in range(20):
            yield odd if number == 5 else (np.zeros(4, np.float32), number)

    return make


@pytest.mark.parametrize("kind", STRANGE)
def test_a_sample_that_is_not_as_its_spec_says(kind):
    odd, message = STRANGE[kind]
    with pytest.raises(tf.errors.OpError, match=f"sample 5 of the generator does not match spec: .*{message}"):
        taken(lt.feed.generator(make_with(odd), SPEC, batch_size=8, budget="1MiB"))
    data = lt.feed.generator(make_with(odd), SPEC, batch_size=8, budget="1MiB", on_error="skip")
    assert taken(data) == ([8, 8, 3], [number for number in range(20) if number != 5])
    assert len(lt.feed.problems(data)) == 1


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_errors_of_a_generator_are_raised(on_error):
    def make():
        yield from [(np.zeros(4), number) for number in range(13)]
        raise OSError("the network is gone")

    given = {"batch_size": 8, "budget": "1MiB", "on_error": on_error}
    with pytest.raises(tf.errors.OpError, match="at sample 13: OSError: the network is gone"):
        taken(lt.feed.generator(make, SPEC, **given))
    once = iter([(np.zeros(4), 1)])
    data = lt.feed.generator(lambda: once, SPEC, **given)
    assert taken(data)[1] == [1]
    with pytest.raises(tf.errors.OpError, match="gave no samples"):
        taken(data)
    with pytest.raises(lt.LowtideError, match="give the function that makes it"):
        lt.feed.generator(once, SPEC, **given)


def test_texts_and_dicts_of_a_generator():
    spec = {"word": tf.TensorSpec((), tf.string), "count": tf.TensorSpec((2,), tf.uint8)}
    data = lt.feed.generator(
        lambda: ({"count": [number, 1], "word": f"ä{number}"} for number in range(3)), spec, batch_size=3, budget="1MiB"
    )
    (batch,) = data
    assert [word.decode() for word in batch["word"].numpy()] == ["ä0", "ä1", "ä2"]
    assert batch["count"].numpy().tolist() == [[0, 1], [1, 1], [2, 1]]


def test_a_folder_that_is_deleted_meanwhile_is_an_error_and_not_a_short_epoch(tmp_path):
    (tmp_path / "photos").mkdir()
    for number in range(8):
        image = tf.io.encode_png(np.zeros((8, 8, 3), np.uint8)).numpy()
        (tmp_path / "photos" / f"{number}.png").write_bytes(image)
    data = lt.feed.images(tmp_path / "photos", size=(8, 8), batch_size=4, budget="16MiB")
    assert taken(data)[0] == [4, 4]
    shutil.rmtree(tmp_path / "photos")
    with pytest.raises(tf.errors.OpError, match=r"0.png"):
        taken(data)


# What Python prints.


def failing_generator():
    yield from [(np.zeros(4, np.float32), number) for number in range(5)]
    raise OSError("the network is gone")


def failing_map():
    def fail(values):
        raise KeyError("a function of the user")

    def load(x, y):
        return tf.ensure_shape(tf.numpy_function(fail, [x], tf.float32), (None, 4)), y

    return lt.feed.arrays(np.zeros((8, 4), np.float32), np.zeros(8), batch_size=4, budget="1MiB").map(load)


def uneven_batches():
    rows = np.arange(1, 9, dtype=np.float32)
    samples = lt.feed.arrays(rows, rows, batch_size=2, budget="1MiB").unbatch()
    uneven = samples.map(lambda row, label: (tf.ones((tf.cast(row, tf.int32), 4)), tf.ones(tf.cast(row, tf.int32))))
    return uneven.batch(3).map(lambda rows, labels: (tf.reshape(rows, (-1, 4)), tf.reshape(labels, (-1,))))


FAILING = {
    "the network is gone; correct it": lambda: lt.feed.generator(failing_generator, SPEC, batch_size=4, budget="1MiB"),
    "KeyError: 'a function of the user'": failing_map,
    "the dataset failed: Cannot add tensor to the batch": uneven_batches,
}


def fit(dataset):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(dataset, verbose=0)


@pytest.mark.parametrize("sentence", FAILING)
@pytest.mark.parametrize("use", [list, fit])
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")
def test_the_last_line_that_is_printed_is_the_one_that_helps(sentence, use):
    with pytest.raises(tf.errors.OpError) as raised:
        use(FAILING[sentence]())
    printed = "".join(traceback.format_exception(raised.value)).rstrip()
    assert sentence in printed.splitlines()[-1]


def test_other_errors_of_tensorflow_are_as_they_were():
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        tf.reshape(tf.zeros(3), (2, 2))
    assert not getattr(raised.value, "__notes__", [])
    with pytest.raises(tf.errors.OutOfRangeError) as raised:
        tf.raw_ops.IteratorGetNext(
            iterator=iter(tf.data.Dataset.range(0))._iterator_resource, output_types=[tf.int64], output_shapes=[()]
        )
    assert not getattr(raised.value, "__notes__", [])


def test_a_budget_that_a_chunk_exceeds_says_so(tmp_path):
    import zarr

    zarr.create_array(tmp_path / "set.zarr", data=np.zeros((1024, 256), np.float32), chunks=(1024, 256))
    with pytest.raises(lt.LowtideError, match=r"a chunk of 1,024 rows takes 1 MiB .*store smaller chunks"):
        lt.feed.arrays(tmp_path / "set.zarr", batch_size=8, budget="512KiB")


def test_classes_have_names(tmp_path):
    for name in ("owl", "cat"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(tf.io.encode_png(np.zeros((8, 8, 3), np.uint8)).numpy())
    given = {"size": (8, 8), "batch_size": 2, "budget": "16MiB"}
    data = lt.feed.images(tmp_path, **given)
    assert data.class_names == ["cat", "owl"]
    assert data.map(lambda x, y: (x / 255, y)).prefetch(1).with_options(tf.data.Options()).class_names == ["cat", "owl"]
    assert lt.feed.images([str(tmp_path / "owl" / "1.png")], **given).class_names is None
