"""Datasets over images, records, tables and generators: every sample once, and what is broken is named or counted."""

import re

import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt
from lowtide.feed.readers.image_headers import ImageHeader, read_header

SIZE = 6


def numbers(dataset):
    """The labels of an epoch, one after the other."""
    return np.concatenate([labels.numpy() for _, labels in dataset]).tolist()


# Images.


@pytest.fixture
def photos(tmp_path):
    """Two classes of ten images; an image's only colour is its number."""
    encoders = {"png": tf.io.encode_png, "jpg": tf.io.encode_jpeg}
    for place in range(20):
        kind = "png" if place % 2 else "jpg"
        path = tmp_path / "photos" / ("cat" if place < 10 else "dog") / f"{place:02d}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoders[kind](np.full((20 + place, 30, 3), place * 10, np.uint8)).numpy())
    return tmp_path / "photos"


def feed_images(source, labels=None, **options):
    return lt.feed.images(source, labels, **({"size": (SIZE, SIZE), "batch_size": 8, "budget": "16MiB"} | options))


def test_folders_are_labels(photos):
    dataset = feed_images(photos)
    assert (len(dataset), dataset.element_spec[0].shape.as_list()) == (3, [None, SIZE, SIZE, 3])
    images = np.concatenate([images.numpy() for images, _ in dataset])
    np.testing.assert_allclose(images[:, 0, 0, 0], np.arange(20) * 10, atol=3)
    assert numbers(dataset) == [0] * 10 + [1] * 10


def test_images_are_shuffled_with_their_labels(photos):
    paths = sorted(str(path) for path in photos.rglob("*.*"))
    order = [int(path.rpartition("/")[2][:2]) for path in paths]
    dataset = feed_images(paths, order, shuffle=True, seed=1)
    epochs = []
    for _ in range(2):
        seen = []
        for images, labels in dataset:
            np.testing.assert_allclose(images.numpy()[:, 0, 0, 0], labels.numpy() * 10, atol=3)
            seen += labels.numpy().tolist()
        epochs.append(seen)
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(20))
    assert epochs[0] != epochs[1]
    shards = [numbers(feed_images(paths, order, shuffle=True, seed=1, shard=(index, 3))) for index in range(3)]
    assert sorted(number for shard in shards for number in shard) == list(range(20))


def test_images_without_labels(photos):
    dataset = feed_images(photos / "cat", batch_size=4, drop_remainder=True, channels=1)
    assert [images.shape for images in dataset] == [(4, SIZE, SIZE, 1)] * 2


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("broken", ["cat/03.png", "dog/19.png"])
def test_a_broken_image_is_named_or_counted(photos, broken, shuffle):
    (photos / broken).write_bytes((photos / broken).read_bytes()[:50])
    with pytest.raises(tf.errors.OpError, match=broken):
        numbers(feed_images(photos, shuffle=shuffle, seed=1))
    dataset = feed_images(photos, shuffle=shuffle, seed=1, on_error="skip")
    assert len(numbers(dataset)) == 19
    (problem,) = lt.feed.problems(dataset)
    assert broken in problem
    assert "Invalid PNG data" in problem


BROKEN = ["cat/00.jpg", "cat/03.png", "cat/07.png", "cat/08.jpg", "dog/15.png", "dog/16.jpg", "dog/19.png"]


def read_until_it_fails(dataset):
    """How many labels came before the error, and what it says."""
    seen = 0
    try:
        for _, labels in dataset:
            seen += len(labels)
    except tf.errors.OpError as error:
        return seen, str(error)
    raise AssertionError("the epoch ended without an error")


@pytest.mark.parametrize("broken", BROKEN)
def test_no_epoch_is_short_wherever_an_image_is_broken(photos, broken):
    # In the order of the files the first two batches have eight images, and the last one has four.
    (photos / broken).write_bytes((photos / broken).read_bytes()[:30])
    place = int(broken[4:6])
    seen, message = read_until_it_fails(feed_images(photos))
    assert broken in message
    assert seen == place // 8 * 8
    one_by_one, message = read_until_it_fails(feed_images(photos, batch_size=1))
    assert (one_by_one, broken in message) == (place, True)
    # With one batch that is all there is.
    assert read_until_it_fails(feed_images(photos, batch_size=20))[0] == 0
    dropped = feed_images(photos, drop_remainder=True)
    if place < 16:
        assert read_until_it_fails(dropped)[0] == place // 8 * 8
    else:
        assert len(numbers(dropped)) == 16
    assert dropped.element_spec[0].shape == (8, SIZE, SIZE, 3)
    with_shard = [feed_images(photos, shard=(index, 3)) for index in range(3)]
    for index, part in enumerate(with_shard):
        if index == place % 3:
            assert broken in read_until_it_fails(part)[1]
        else:
            assert len(numbers(part)) == len(range(index, 20, 3))


@pytest.mark.parametrize("broken", ["cat/03.png", "cat/08.jpg", "dog/19.png"])
def test_a_broken_image_in_the_rest_of_an_epoch(photos, broken):
    (photos / broken).write_bytes(b"")
    bookmark = lt.feed.Bookmark()
    bookmark.move_to(2, 1)
    dataset = feed_images(photos, bookmark=bookmark)
    if broken == "cat/03.png":
        # It is in the batch that was there before.
        assert len(numbers(dataset)) == 12
    else:
        seen, message = read_until_it_fails(dataset)
        assert (seen, broken in message) == (0 if broken == "cat/08.jpg" else 8, True)


def test_an_error_is_raised_again_when_iteration_continues(photos):
    (photos / "cat/03.png").write_bytes(b"no image")
    iterator = iter(feed_images(photos))
    for _ in range(3):
        with pytest.raises(tf.errors.OpError, match=r"cat/03.png"):
            next(iterator)


def test_several_broken_images_and_all_of_them(photos):
    for path in photos.rglob("*.*"):
        path.write_bytes(b"no image")
    seen, message = read_until_it_fails(feed_images(photos))
    assert (seen, "cat/00.jpg" in message) == (0, True)
    dataset = feed_images(photos, on_error="skip")
    # An epoch of nothing would not be noticed.
    seen, message = read_until_it_fails(dataset)
    assert (seen, "not one sample can be read" in message) == (0, True)
    assert len(lt.feed.problems(dataset)) == 20


def test_a_deleted_file_is_named(photos):
    dataset = feed_images(photos)
    (photos / "dog/12.jpg").unlink()
    seen, message = read_until_it_fails(dataset)
    assert (seen, "dog/12.jpg" in message) == (8, True)


def test_files_that_are_not_images_are_refused(photos, tmp_path):
    with pytest.raises(lt.LowtideError, match="no such folder"):
        feed_images(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(lt.LowtideError, match="no images"):
        feed_images(tmp_path / "empty")
    with pytest.raises(lt.LowtideError, match="20 images, 3 labels"):
        feed_images(photos, [1, 2, 3])
    with pytest.raises(lt.LowtideError, match="give at least") as refused:
        feed_images(photos, budget="64KiB")
    assert feed_images(photos, budget=re.search(r"at least ([\d.]+ \w+)", str(refused.value))[1])
    with pytest.raises(lt.LowtideError, match="unknown value of on_error"):
        feed_images(photos, on_error="ignore")
    with pytest.raises(lt.LowtideError, match="unknown value of decode"):
        feed_images(photos, decode="half")
    for size in (32, (32,), (0, 32), (32, 32, 3), ("32", "32")):
        with pytest.raises(lt.LowtideError, match=r"a height and a width.*size=\(224, 224\)"):
            feed_images(photos, size=size)
    with pytest.raises(lt.LowtideError, match="1, 3 or 4 channels"):
        feed_images(photos, channels=2)


def test_the_size_of_an_image_is_read_from_its_head(tmp_path):
    image = np.zeros((17, 33, 3), np.uint8)
    jpegs = [tf.io.encode_jpeg(image, progressive=progressive) for progressive in (False, True)]
    for name, content, kind in (
        ("a.png", tf.io.encode_png(image), (False, False)),
        ("a.jpg", jpegs[0], (True, False)),
        ("b.jpg", jpegs[1], (True, True)),
    ):
        (tmp_path / name).write_bytes(content.numpy())
        assert read_header(str(tmp_path / name)) == ImageHeader(17, 33, *kind)
    (tmp_path / "a.gif").write_bytes(b"GIF89a" + (33).to_bytes(2, "little") + (17).to_bytes(2, "little") + bytes(20))
    assert read_header(str(tmp_path / "a.gif")) == ImageHeader(17, 33)
    for name, content in (("text.png", b"no image at all"), ("cut.jpg", b"\xff\xd8\xff\xe0"), ("empty.png", b"")):
        (tmp_path / name).write_bytes(content)
        assert read_header(str(tmp_path / name)) is None


# Records.

FEATURES = {"x": tf.io.FixedLenFeature((2,), tf.float32), "y": tf.io.FixedLenFeature((), tf.int64)}


def example(number, with_label=True):
    features = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=[number, -number]))}
    if with_label:
        features["y"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture
def shards(tmp_path):
    """Three files of thirty records, which `write` can write again with other ones."""

    def write(without_label=()):
        for file in range(3):
            with tf.io.TFRecordWriter(str(tmp_path / f"train-{file}.tfrecord")) as writer:
                for number in range(30 * file, 30 * file + 30):
                    writer.write(example(number, number not in without_label))
        return tmp_path / "train-*.tfrecord"

    return write


def feed_records(source, **options):
    given = {"features": FEATURES, "label": "y", "batch_size": 8, "budget": "1MiB"}
    return lt.feed.records(source, **(given | options))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_record_is_read_once(shards, shuffle, on_error):
    dataset = feed_records(shards(), shuffle=shuffle, seed=2, on_error=on_error)
    for inputs, labels in dataset:
        np.testing.assert_array_equal(inputs["x"].numpy()[:, 0], labels.numpy())
    seen = numbers(dataset)
    assert sorted(seen) == list(range(90))
    assert (seen == list(range(90))) is not shuffle
    assert lt.feed.problems(dataset) == []
    if shuffle:
        # Across files, not within each.
        assert len({number // 30 for number in seen[:8]}) > 1


def test_a_missing_label_is_named_or_counted(shards):
    source = shards(without_label={47})
    with pytest.raises(tf.errors.OpError, match=r"record 17 of .*train-1.tfrecord"):
        numbers(feed_records(source))
    dataset = feed_records(source, on_error="skip")
    assert numbers(dataset) == [number for number in range(90) if number != 47]
    assert "record 17 of" in lt.feed.problems(dataset)[0]


def test_damage_in_a_record_is_named_or_counted(shards, tmp_path):
    source = shards()
    path = tmp_path / "train-2.tfrecord"
    content = bytearray(path.read_bytes())
    record = len(content) // 30
    content[record * 4 + 20] ^= 1
    path.write_bytes(content)
    with pytest.raises(tf.errors.OpError, match=r"record 4 of .*train-2.tfrecord is damaged"):
        numbers(feed_records(source))
    dataset = feed_records(source, on_error="skip")
    assert len(numbers(dataset)) == 89
    assert "checksum" in lt.feed.problems(dataset)[0]


def test_a_truncated_shard_is_an_error_and_not_a_short_epoch(shards, tmp_path):
    source = shards()
    path = tmp_path / "train-1.tfrecord"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(lt.LowtideError, match=r"train-1.tfrecord ends in the middle of record 29, at byte"):
        feed_records(source)
    dataset = feed_records(source, on_error="skip")
    assert len(numbers(dataset)) == 89
    assert "in the middle of record 29" in lt.feed.problems(dataset)[0]


def test_records_that_cannot_be_fed_are_refused(shards, tmp_path):
    source = shards()
    with pytest.raises(lt.LowtideError, match="no file matches"):
        feed_records(tmp_path / "other-*")
    with pytest.raises(lt.LowtideError, match="none of the features"):
        feed_records(source, label="z")
    (tmp_path / "empty.tfrecord").touch()
    with pytest.raises(lt.LowtideError, match="no records"):
        feed_records([str(tmp_path / "empty.tfrecord")])


# Tables.


@pytest.fixture
def events(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(without_label=(), kind="parquet"):
        for file in range(3):
            rows = np.arange(100) + 100 * file
            content = pa.table(
                {
                    "amount": (rows / 2).astype(np.float32),
                    "word": [f"row {row}" for row in rows],
                    "clicked": pa.array([None if row in without_label else int(row) for row in rows]),
                }
            )
            path = tmp_path / f"events-{file}.{kind}"
            if kind == "parquet":
                pq.write_table(content, path, row_group_size=17)
            else:
                with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, content.schema) as writer:
                    writer.write_table(content, max_chunksize=17)
        return tmp_path / f"events-*.{kind}"

    return write


def feed_table(source, **options):
    return lt.feed.table(source, **({"batch_size": 32, "label": "clicked", "budget": "1MiB"} | options))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_row_is_read_once(events, kind, shuffle):
    dataset = feed_table(events(kind=kind), shuffle=shuffle, seed=1, budget="64KiB")
    seen = []
    for columns, labels in dataset:
        np.testing.assert_array_equal(columns["amount"].numpy() * 2, labels.numpy())
        assert columns["word"].numpy().tolist() == [f"row {label}".encode() for label in labels.numpy()]
        seen += labels.numpy().tolist()
    assert sorted(seen) == list(range(300))
    assert (seen == list(range(300))) is not shuffle
    assert ("two levels" in lt.feed.describe(dataset)) is shuffle


def test_columns_can_be_chosen(events):
    (batch,) = feed_table(events(), columns=["amount"], label=None, batch_size=300)
    assert sorted(batch) == ["amount"]
    inputs, _ = next(iter(feed_table(events(), columns=["amount"])))
    assert sorted(inputs) == ["amount"]


def test_a_row_that_lacks_a_value_is_named_or_counted(events):
    source = events(without_label={107})
    with pytest.raises(tf.errors.OpError, match=r"row 7 of .*events-1.parquet"):
        numbers(feed_table(source))
    dataset = feed_table(source, on_error="skip")
    assert numbers(dataset) == [row for row in range(300) if row != 107]
    assert "row 7 of" in lt.feed.problems(dataset)[0]


def test_tables_that_do_not_fit_together_are_refused(events, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = events()
    with pytest.raises(lt.LowtideError, match="has no column price"):
        feed_table(source, label="price")
    (tmp_path / "events-3.parquet").write_bytes((tmp_path / "events-0.parquet").read_bytes()[:-30])
    (tmp_path / "events.csv").write_text("label,x\n1,2\n")
    with pytest.raises(lt.LowtideError, match=r"events.csv is no Parquet or Arrow file; convert it"):
        lt.feed.table(tmp_path / "events.csv", label="label", batch_size=1, budget="1MiB")
    with pytest.raises(lt.LowtideError, match=r"events-3.parquet cannot be read"):
        feed_table(source)
    other = {"amount": [1], "word": ["a"], "clicked": [1]}
    pq.write_table(pa.table(other), tmp_path / "events-3.parquet")
    with pytest.raises(lt.LowtideError, match=r"column amount of .*events-3.parquet is of another type"):
        feed_table(source)
    pq.write_table(pa.table({"clicked": [1], "tags": [["a"]]}), tmp_path / "lists.parquet")
    with pytest.raises(lt.LowtideError, match="neither a number nor a text"):
        feed_table(tmp_path / "lists.parquet")


# Generators.

SPEC = (tf.TensorSpec((4,), tf.float32), tf.TensorSpec((), tf.int32))


def make_samples():
    for number in range(50):
        yield np.full(4, number, np.float32), number


def feed_generator(**options):
    return lt.feed.generator(make_samples, SPEC, **({"batch_size": 8, "budget": "4KiB"} | options))


def test_a_generator_in_batches():
    dataset = feed_generator()
    assert numbers(dataset) == numbers(dataset) == list(range(50))
    shuffled = feed_generator(shuffle=True, seed=3)
    epochs = [numbers(shuffled) for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(50))
    assert epochs[0] != epochs[1]
    assert [numbers(feed_generator(shuffle=True, seed=3))] == epochs[:1]
    assert "drawn from the next" in lt.feed.describe(shuffled)
    parts = [numbers(feed_generator(shard=(index, 2))) for index in range(2)]
    assert parts == [list(range(0, 50, 2)), list(range(1, 50, 2))]


@pytest.mark.parametrize("chosen", [0, 7])
def test_the_order_of_a_generator_is_that_of_its_own_seed(chosen):
    before = numbers(feed_generator(shuffle=True, seed=3))
    tf.random.set_seed(chosen)
    try:
        assert numbers(feed_generator(shuffle=True, seed=3)) == before
        assert numbers(feed_generator(shuffle=True, seed=4)) != before
    finally:
        tf.random.set_seed(None)


def test_a_generator_continues_from_a_bookmark(tmp_path):
    def feed():
        bookmark = lt.feed.Bookmark(tmp_path / "bookmark.json", every=1)
        return bookmark, feed_generator(shuffle=True, bookmark=bookmark)

    bookmark, dataset = feed()
    seen = [numbers([batch]) for batch, _ in zip(bookmark.follow(dataset), range(4), strict=False)]
    used = [number for batch in seen[: bookmark.step] for number in batch]
    again, dataset = feed()
    assert sorted(used + numbers(again.follow(dataset))) == list(range(50))


def test_a_generator_of_unknown_size_is_refused():
    with pytest.raises(lt.LowtideError, match="not known"):
        lt.feed.generator(make_samples, tf.TensorSpec((None,)), batch_size=2, budget="1MiB")
    spec = tf.TensorSpec((3,))
    with pytest.raises(lt.LowtideError, match=r"only once .*give the function"):
        lt.feed.generator(iter([1]), spec, batch_size=2, budget="1MiB")
    with pytest.raises(lt.LowtideError, match=r"make is not a function .*list"):
        lt.feed.generator([1], spec, batch_size=2, budget="1MiB")
    with pytest.raises(lt.LowtideError, match="not one of lowtide's"):
        lt.feed.describe(tf.data.Dataset.range(3))
