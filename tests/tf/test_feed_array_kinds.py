"""Arrays as users have them: any type, order of bytes and of axes, chunks of any shape, texts, and several readers."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt
from lowtide.feed.readers.array_samples import ArraySamples
from lowtide.feed.readers.open_array import open_array

COUNT = 120
WORDS = np.array([f"größe {number}" * (number % 4) for number in range(COUNT)])


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(COUNT, 12, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    """The same rows in files of many kinds."""
    import h5py
    import zarr

    folder = tmp_path_factory.mktemp("kinds")
    np.save(folder / "big.npy", rows.astype(">f4"))
    np.save(folder / "columns.npy", np.asfortranarray(rows))
    np.savez(folder / "nested.npz", **{"train/x": rows, "test/x": rows + 1, "y": np.arange(3)})
    np.savez_compressed(folder / "packed.npz", x=np.asfortranarray(rows.astype(">f4")))
    with h5py.File(folder / "set.h5", "w") as file:
        file["plain"], file["big"] = rows, rows.astype(">f4")
        file.create_dataset("split", data=rows, chunks=(16, 5, 2), compression="gzip", shuffle=True)
        file.create_dataset("single", data=rows, chunks=(1, 12, 5), compression="lzf")
        file.create_dataset("swapped", data=rows.astype(">f4"), chunks=(16, 12, 5))
        file.create_dataset("summed", data=rows, chunks=(1000, 12, 5), maxshape=(None, 12, 5), fletcher32=True)
        file.create_dataset("offset", data=(rows * 100).astype(np.int32), chunks=(50, 12, 5), scaleoffset=0)
        file.create_dataset("texts", data=list(WORDS), dtype=h5py.string_dtype())
        file.create_dataset("texts in chunks", data=list(WORDS), dtype=h5py.string_dtype(), chunks=(16,))
        file["bytes"] = np.char.encode(WORDS, "utf-8")
        file["positive"], file["half"] = rows > 0, rows.astype(np.float16)
    layout = h5py.VirtualLayout(rows.shape, np.float32)
    layout[:] = h5py.VirtualSource(folder / "set.h5", "plain", rows.shape)
    with h5py.File(folder / "virtual.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
    with h5py.File(folder / "behind.h5", "w", userblock_size=512) as file:
        file["x"] = rows
    for version in (2, 3):
        array = zarr.create_array(
            folder / f"v{version}.zarr", shape=rows.shape, dtype="f4", chunks=(16, 5, 2), zarr_format=version
        )
        array[:] = rows
    zarr.create_array(folder / "sharded.zarr", data=rows, chunks=(8, 12, 5), shards=(40, 12, 5))
    zarr.create_array(folder / "big.zarr", data=rows.astype(">f4"), chunks=(1, 12, 5))
    zarr.create_array(folder / "texts.zarr", data=WORDS.astype(np.dtypes.StringDType()), chunks=(16,))
    zarr.open_group(folder / "group", mode="w").create_array("train/x", data=rows, chunks=(16, 12, 5))
    store = zarr.storage.ZipStore(folder / "set.zarr.zip", mode="w")
    zarr.create_array(store, data=rows, chunks=(16, 12, 5))
    store.close()
    return folder


AS_THEY_ARE = [
    "big.npy",
    "columns.npy",
    "nested.npz:train/x",
    "packed.npz",
    "set.h5:plain",
    "set.h5:big",
    "set.h5:split",
    "set.h5:single",
    "set.h5:swapped",
    "set.h5:summed",
    "virtual.h5",
    "behind.h5",
    "v2.zarr",
    "v3.zarr",
    "sharded.zarr",
    "big.zarr",
    "group:train/x",
    "set.zarr.zip",
]
OTHERS = {
    "set.h5:offset": lambda rows: (rows * 100).astype(np.int32),
    "set.h5:texts": lambda rows: np.char.encode(WORDS, "utf-8"),
    "set.h5:texts in chunks": lambda rows: np.char.encode(WORDS, "utf-8"),
    "set.h5:bytes": lambda rows: np.char.encode(WORDS, "utf-8"),
    "set.h5:positive": lambda rows: rows > 0,
    "set.h5:half": lambda rows: rows.astype(np.float16),
    "texts.zarr": lambda rows: np.char.encode(WORDS, "utf-8"),
}


@pytest.mark.parametrize("name", [*AS_THEY_ARE, *OTHERS])
def test_every_kind_of_file_gives_its_rows(folder, rows, name):
    expected = OTHERS.get(name, lambda rows: rows)(rows)
    for shuffle in (False, True):
        data = lt.feed.arrays(
            str(folder / name), np.arange(COUNT), batch_size=16, shuffle=shuffle, seed=1, budget="2MiB"
        )
        seen = []
        for batch, numbers in data:
            np.testing.assert_array_equal(batch.numpy(), expected[numbers.numpy()])
            seen += numbers.numpy().tolist()
        assert sorted(seen) == list(range(COUNT))


@pytest.mark.parametrize("name", ["set.h5:split", "set.h5:single", "v3.zarr", "set.zarr.zip", "big.zarr"])
def test_several_readers_at_the_same_time_get_what_they_asked_for(folder, rows, name):
    samples = ArraySamples([open_array(str(folder / name), "x")])
    # Of few blocks there is room for, so that they are read again and again.
    samples.cache.most_bytes = rows[:40].nbytes
    random = np.random.default_rng(3)
    wanted = [random.integers(0, COUNT, 20) for _ in range(40)]
    with ThreadPoolExecutor(8) as threads:
        for places, (found, missing) in zip(wanted, threads.map(samples.read, wanted), strict=True):
            np.testing.assert_array_equal(found[0], rows[places])
            assert not missing.any()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (np.float16, tf.float16),
        (np.bool_, tf.bool),
        (">i2", tf.int16),
        (np.complex64, tf.complex64),
        ("S4", tf.string),
        (">U4", tf.string),
    ],
)
def test_arrays_in_memory_of_any_type(rows, kind, expected):
    given = rows.astype(np.int8).astype(kind)
    (batch,) = lt.feed.arrays(given, batch_size=COUNT, budget="8MiB")
    assert batch.dtype == expected
    texts = given.dtype.kind in "SU"
    np.testing.assert_array_equal(batch.numpy(), given.astype("S") if texts else given)


def test_rows_that_are_not_in_one_piece(rows):
    both = np.zeros(COUNT, [("a", np.float32, (3,)), ("b", np.int32)])
    both["a"], both["b"] = rows[:, 0, :3], np.arange(COUNT)
    given = {"a": both["a"], "b": both["b"], "turned": rows[::-1, :, ::2], "wide": np.broadcast_to(3.5, (COUNT, 2))}
    for batch in lt.feed.arrays(given, batch_size=50, shuffle=True, budget="1MiB"):
        numbers = batch["b"].numpy()
        np.testing.assert_array_equal(batch["a"].numpy(), rows[numbers, 0, :3])
        np.testing.assert_array_equal(batch["turned"].numpy(), rows[::-1, :, ::2][numbers])
        assert (batch["wide"].numpy() == 3.5).all()


def test_texts_that_are_not_ascii():
    (batch,) = lt.feed.arrays(WORDS, batch_size=COUNT, budget="1MiB")
    assert [word.decode() for word in batch.numpy()] == WORDS.tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(5, [("a", "f4"), ("b", "i4")]), "several values in each row .*a, b"),
        (np.zeros(5, "M8[s]"), "holds times"),
        (np.zeros(5, np.longdouble), "no type for"),
        (np.zeros(5, "V3"), "no type for"),
        (np.array(["a", None, 3]), "holds Python objects"),
        (np.array(["a", "b"], np.dtypes.StringDType()), "holds Python objects"),
        (np.zeros((0, 3)), "no samples"),
        (np.float32(3), "single number"),
    ],
)
def test_types_that_tensorflow_lacks_are_refused(given, message, tmp_path):
    with pytest.raises(lt.LowtideError, match=message):
        lt.feed.arrays(given, batch_size=2, budget="1MiB")
    if given.dtype == object:
        np.save(tmp_path / "rows.npy", given)
        with pytest.raises(lt.LowtideError, match=message):
            lt.feed.arrays(tmp_path / "rows.npy", batch_size=2, budget="1MiB")
    if not given.dtype.hasobject:
        np.savez_compressed(tmp_path / "set.npz", x=given)
        with pytest.raises(lt.LowtideError, match=message):
            lt.feed.arrays(tmp_path / "set.npz", batch_size=2, budget="1MiB")


def test_names_in_a_file_are_whole(folder):
    with pytest.raises(lt.LowtideError, match="it has train/x, test/x, y"):
        lt.feed.arrays(folder / "nested.npz", batch_size=2, budget="1MiB")
    (folder / "empty.zarr").mkdir()
    with pytest.raises(lt.LowtideError, match="no array and no group"):
        lt.feed.arrays(folder / "empty.zarr", batch_size=2, budget="1MiB")


def test_rows_of_an_array_in_columns_are_read_without_the_others(tmp_path):
    """NumPy's own `take` would make a copy of the whole array for each batch."""
    rows = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (4_096, 4_096), fortran_order=True)
    del rows
    found = open_array(tmp_path / "x.npy", "x")
    out = np.empty((4, 4_096), np.float32)
    tracemalloc.start()
    found.read(np.array([5, 1, 9, 7]), out)
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert highest < 1 << 20
