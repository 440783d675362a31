"""Compressed inputs: the same samples as from what is not compressed, and the disk is free again afterwards."""

import gc
import gzip
import os
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt
from lowtide.feed.readers.unpacked_files import check_disk_space

COUNT = 200
FEATURES = {"x": tf.io.FixedLenFeature((2,), tf.float32), "y": tf.io.FixedLenFeature((), tf.int64)}


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(COUNT, 5)).astype(np.float32)


def example(number):
    features = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[number, -number])),
        "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write_records(path, numbers, compression=""):
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression)) as writer:
        for number in numbers:
            writer.write(example(number))


def feed_records(paths, **options):
    given = {"features": FEATURES, "label": "y", "batch_size": 8, "budget": "1MiB"} | options
    return lt.feed.records([str(path) for path in paths], **given)


def labels(dataset):
    return [number for _, batch in dataset for number in batch.numpy().tolist()]


def unnamed_files(folder):
    """The files without a name that this process has open in a folder."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return [path for path in found if path.startswith(str(folder)) and path.endswith("(deleted)")]


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has open is read from /proc")
def test_a_compressed_array_is_unpacked_once_and_gone_afterwards(rows, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    np.savez_compressed(tmp_path / "set.npz", x=rows, y=np.arange(COUNT))
    path = tmp_path / "set.npz"
    data = lt.feed.arrays(path, path, batch_size=32, shuffle=True, budget="1MiB")
    for x, y in data:
        np.testing.assert_array_equal(x.numpy(), rows[y.numpy()])
    output = lt.feed.describe(data)
    assert f"set.npz:x unpacked once: {(rows.nbytes + 128) / 1024:.2f} KiB of disk in {scratch}" in output
    assert os.listdir(scratch) == []
    assert len(set(unnamed_files(scratch))) == 2
    again = lt.feed.arrays(path, path, batch_size=32, budget="1MiB")
    # The second one maps the same file.
    assert len(set(unnamed_files(scratch))) == 2
    del data, again, x, y
    # First the dataset goes, and then what stood behind it.
    gc.collect()
    gc.collect()
    assert unnamed_files(scratch) == []


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_compressed_records_are_read_at_random(tmp_path, compression):
    paths = [tmp_path / "packed", tmp_path / "plain", tmp_path / "again"]
    write_records(paths[0], range(30), compression)
    write_records(paths[1], range(30, 60))
    write_records(paths[2], range(60, 90), compression)
    for on_error in ("raise", "skip"):
        data = feed_records(paths, shuffle=True, seed=1, on_error=on_error)
        seen = labels(data)
        assert sorted(seen) == list(range(90))
        assert len({number // 30 for number in seen[:8]}) > 1
    whole = sum(os.path.getsize(path) for path in paths[1:2]) * 2
    assert f"unpacked once: {whole / 1024:.2f} KiB of disk" in lt.feed.describe(data)


def test_what_gzip_has_written_in_several_streams(tmp_path):
    write_records(tmp_path / "plain", range(40))
    content = (tmp_path / "plain").read_bytes()
    (tmp_path / "packed").write_bytes(gzip.compress(content[:333]) + gzip.compress(content[333:]) + bytes(64))
    assert labels(feed_records([tmp_path / "packed"])) == list(range(40))


def damage(path, content):
    path.write_bytes(content)
    return path


def test_compressed_records_that_are_cut_or_damaged_are_named_or_counted(tmp_path):
    write_records(tmp_path / "plain", range(100, 130))
    write_records(tmp_path / "packed", range(100), "GZIP")
    content = (tmp_path / "packed").read_bytes()
    cut = damage(tmp_path / "cut", content[: len(content) // 2])
    with pytest.raises(lt.LowtideError, match=f"{cut} cannot be unpacked: it ends too early"):
        feed_records([tmp_path / "plain", cut])
    data = feed_records([cut, tmp_path / "plain"], on_error="skip")
    seen = labels(data)
    kept = [number for number in seen if number < 100]
    assert seen == [*range(len(kept)), *range(100, 130)]
    assert 0 < len(kept) < 100
    first, second = lt.feed.problems(data)
    assert "ends too early" in first
    assert f"in the middle of record {len(kept)}" in second
    # All records are there, but nothing shows that they are right.
    without_sum = damage(tmp_path / "sum", content[:-8] + bytes(8))
    with pytest.raises(lt.LowtideError, match=f"{without_sum} cannot be unpacked: .*incorrect"):
        feed_records([without_sum])
    stream = damage(tmp_path / "zlib", zlib.compress((tmp_path / "plain").read_bytes())[:-4])
    with pytest.raises(lt.LowtideError, match="ends too early"):
        feed_records([stream])


def test_compressed_arrays_that_are_cut_or_damaged_are_named(rows, tmp_path):
    np.savez_compressed(tmp_path / "whole.npz", x=rows)
    content = (tmp_path / "whole.npz").read_bytes()
    cut = damage(tmp_path / "cut.npz", content[: len(content) // 2])
    with pytest.raises(lt.LowtideError, match=r"cut.npz cannot be read"):
        lt.feed.arrays(cut, batch_size=8, budget="1MiB")
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    with pytest.raises(lt.LowtideError, match=r"flipped.npz:x cannot be unpacked"):
        lt.feed.arrays(damage(tmp_path / "flipped.npz", flipped), batch_size=8, budget="1MiB")


def test_other_ways_to_compress_an_archive(rows, tmp_path):
    np.save(tmp_path / "x.npy", rows)
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "set.npz", "w", method) as archive:
            archive.write(tmp_path / "x.npy", "x.npy")
        (batch,) = lt.feed.arrays(tmp_path / "set.npz", batch_size=COUNT, budget="1MiB")
        np.testing.assert_array_equal(batch.numpy(), rows)


def test_a_disk_that_is_too_small_is_refused_with_what_is_needed(rows, tmp_path, monkeypatch):
    with pytest.raises(lt.LowtideError, match=r"takes at least .*: set TMPDIR"):
        check_disk_space(str(tmp_path), 1 << 62, "set.npz:x")
    np.savez_compressed(tmp_path / "set.npz", x=rows)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with pytest.raises(lt.LowtideError, match="set TMPDIR to a folder"):
        lt.feed.arrays(tmp_path / "set.npz", batch_size=8, budget="1MiB")


FULL = """
import resource, signal, sys
import lowtide as lt

# A file may not become larger than this, as if the disk were full.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    lt.feed.arrays(sys.argv[1], batch_size=8, budget="64MiB")
except lt.LowtideError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set by resource")
def test_a_disk_that_fills_up_while_writing_is_reported(tmp_path):
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros((1 << 20, 4), np.float32))
    command = [sys.executable, "-c", FULL, str(tmp_path / "zeros.npz")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "has no room to unpack it" in output
    assert "set TMPDIR" in output


MEMORY = """
import resource, sys
from lowtide.feed.readers.open_array import open_array

def highest():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = highest()
found = open_array(sys.argv[1], "x")
print(highest() - before, found.unpacked.bytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc")
def test_unpacking_takes_constant_memory(tmp_path):
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros((1 << 20, 24), np.float32))
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "zeros.npz")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    grown, unpacked = map(int, output.split())
    assert unpacked > 96 << 20
    assert grown < 16 << 20
