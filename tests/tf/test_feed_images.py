"""How images are decoded: as a whole, or no larger than they are needed; and within the budget."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt
from lowtide.feed.readers.image_decoding import decoding_bytes
from lowtide.feed.readers.image_headers import ImageHeader, read_header

SIZE = (20, 30)


def picture(height, width, channels=3):
    """A smooth picture, of which any way to make it smaller gives about the same."""
    down, across = np.linspace(0, 6, height)[:, None], np.linspace(0, 6, width)[None, :]
    waves = [np.sin(down + each) * np.cos(across - each) for each in range(channels)]
    return (128 + 100 * np.stack(waves, -1)).astype(np.uint8)


def feed(paths, **options):
    given = {"size": SIZE, "batch_size": 1, "budget": "64MiB"}
    return np.concatenate([images.numpy() for images in lt.feed.images(list(map(str, paths)), **(given | options))])


def resized(path, channels=3, size=SIZE):
    content = tf.io.read_file(str(path))
    return tf.image.resize(tf.io.decode_image(content, channels, expand_animations=False), size).numpy()


@pytest.mark.parametrize(
    ("height", "width", "ratio"),
    [
        (20, 30, 1), (39, 60, 2), (38, 60, 1), (39, 59, 2), (40, 58, 1), (76, 400, 2), (77, 117, 4), (153, 233, 8),
        (153, 232, 4), (600, 900, 8), (10, 10, 1),
    ],
)  # fmt: skip
def test_a_jpeg_is_decoded_at_the_smallest_scale_that_is_large_enough(tmp_path, height, width, ratio):
    path = tmp_path / "a.jpg"
    path.write_bytes(tf.io.encode_jpeg(picture(height, width)).numpy())
    decoded = tf.io.decode_jpeg(tf.io.read_file(str(path)), 3, ratio=ratio)
    if min(height, width) > 10:
        assert decoded.shape[0] >= SIZE[0]
        assert decoded.shape[1] >= SIZE[1]
    (image,) = feed([path])
    np.testing.assert_array_equal(image, tf.image.resize(decoded, SIZE).numpy())
    # It is the same picture; where its sides are no multiple of the ratio, moved by less than a pixel.
    assert np.abs(image - resized(path)).mean() < (4 if height % ratio == width % ratio == 0 else 10)
    (whole,) = feed([path], decode="whole")
    np.testing.assert_array_equal(whole, resized(path))


def cmyk(path):
    """TensorFlow writes no such files."""
    image = pytest.importorskip("PIL.Image")
    image.fromarray(picture(160, 240, 4), "CMYK").save(path, quality=95)


# TensorFlow does not make one channel of four.
@pytest.mark.parametrize(
    ("kind", "channels"), [("progressive", 1), ("progressive", 3), ("grayscale", 1), ("grayscale", 3), ("cmyk", 3)]
)
def test_every_kind_of_jpeg_is_decoded_as_by_decode_image(tmp_path, kind, channels):
    path = tmp_path / "a.jpg"
    if kind == "cmyk":
        cmyk(path)
    elif kind == "grayscale":
        path.write_bytes(tf.io.encode_jpeg(picture(160, 240, 1), format="grayscale").numpy())
    else:
        path.write_bytes(tf.io.encode_jpeg(picture(160, 240), progressive=True).numpy())
    (whole,) = feed([path], decode="whole", channels=channels)
    np.testing.assert_array_equal(whole, resized(path, channels))
    (scaled,) = feed([path], channels=channels)
    assert scaled.shape == (*SIZE, channels)
    assert np.abs(scaled - whole).mean() < 4


def test_what_a_file_is_called_does_not_matter(tmp_path):
    large = picture(160, 240)
    names = {"jpeg.png": tf.io.encode_jpeg(large), "png.jpg": tf.io.encode_png(large), "bmp.gif": bitmap(large)}
    paths = [tmp_path / name for name in names]
    for path, content in zip(paths, names.values(), strict=True):
        path.write_bytes(content if isinstance(content, bytes) else content.numpy())
    jpeg, png, bmp = feed(paths)
    np.testing.assert_array_equal(png, tf.image.resize(large, SIZE).numpy())
    np.testing.assert_array_equal(bmp, png)
    assert 0 < np.abs(jpeg - png).mean() < 4


def bitmap(image):
    """A BMP of 24 bits, from the lowest row on."""
    height, width, _ = image.shape
    rows = image[::-1, :, ::-1].tobytes()
    head = b"BM" + (54 + len(rows)).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
    sizes = [(40, 4), (width, 4), (height, 4), (1, 2), (24, 2), (0, 4), (len(rows), 4), (0, 4), (0, 4), (0, 4), (0, 4)]
    return head + b"".join(value.to_bytes(length, "little") for value, length in sizes) + rows


def test_four_channels_are_for_other_files_than_jpegs(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(tf.io.encode_png(picture(160, 240, 4)).numpy())
    (image,) = feed([path], channels=4)
    np.testing.assert_array_equal(image, resized(path, 4))


def test_labels_of_any_shape_come_with_their_images(tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(5)]
    for number, path in enumerate(paths):
        path.write_bytes(tf.io.encode_png(np.full((20, 30, 3), number, np.uint8)).numpy())
    paths[3].write_bytes(b"")
    boxes = np.arange(20, dtype=np.float64).reshape(5, 4)
    for labels, meant in ((boxes, boxes), ([f"word {number}" for number in range(5)], None)):
        dataset = lt.feed.images(
            list(map(str, paths)), labels, size=SIZE, batch_size=2, budget="64MiB", shuffle=True, on_error="skip"
        )
        seen = 0
        for images, given in dataset:
            for image, label in zip(images.numpy(), given.numpy(), strict=True):
                number = int(image[0, 0, 0])
                seen += 1
                np.testing.assert_array_equal(label, b"word %d" % number if meant is None else meant[number])
        assert seen == 4


def test_the_memory_of_decoding(tmp_path):
    head = ImageHeader(1600, 2400, is_jpeg=True)
    whole = decoding_bytes(head, 1000, (200, 300), 3, "whole")
    scaled = decoding_bytes(head, 1000, (200, 300), 3, "scaled")
    assert whole - scaled == 1600 * 2400 * 3 - 200 * 300 * 3
    progressive = ImageHeader(1600, 2400, is_jpeg=True, is_progressive=True)
    assert decoding_bytes(progressive, 1000, (200, 300), 3, "scaled") - scaled == 1600 * 2400 * 6
    assert decoding_bytes(ImageHeader(10, 2400, is_jpeg=True), 0, (200, 300), 3, "scaled") > 10 * 2400 * 3
    (tmp_path / "a.jpg").write_bytes(tf.io.encode_jpeg(picture(1600, 2400)).numpy())
    assert read_header(str(tmp_path / "a.jpg")) == head


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_an_epoch_decodes_every_image_once_and_iterators_do_not_disturb_each_other(tmp_path, on_error):
    paths = [tmp_path / f"{number}.png" for number in range(23)]
    for number, path in enumerate(paths):
        path.write_bytes(tf.io.encode_png(np.full((20, 30, 3), number, np.uint8)).numpy())
    data = lt.feed.images(
        list(map(str, paths)), np.arange(23), size=SIZE, batch_size=4, budget="64MiB", shuffle=True, on_error=on_error
    )
    # An iterator that is left early, and two at the same time.
    next(iter(data))
    for some in zip(data, data, strict=True):
        for images, labels in some:
            np.testing.assert_array_equal(images[:, 0, 0, 0], labels)


MEMORY = """
import sys, time
import tensorflow as tf
import lowtide as lt

def own():
    lines = dict(line.split(":") for line in open("/proc/self/status") if ":" in line)
    return int(lines["RssAnon"].split()[0]) * 1024

folder, decode, on_error, budget = sys.argv[1:]
options = {"size": (256, 256), "budget": budget, "decode": decode, "on_error": on_error, "shuffle": True}
# What TensorFlow takes for its functions, kernels and threads belongs to the process.
small = lt.feed.images(folder, **(options | {"size": (8, 8), "batch_size": 1}))
data = lt.feed.images(folder, batch_size=16, **options)
for _ in small:
    pass
base, highest = own(), 0
for _ in range(2):
    for batch in data:
        # A slow consumer finds all batches ready that there is room for.
        time.sleep(0.1)
        highest = max(highest, own())
print(highest - base)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc")
# Without oneDNN TensorFlow's tensors come from the C library, which keeps what each thread has freed.
@pytest.mark.parametrize(
    ("decode", "on_error", "onednn"),
    [("whole", "raise", 0), ("whole", "skip", 0), ("scaled", "raise", 0), ("whole", "raise", 1)],
)
def test_images_that_are_larger_than_their_budget_stay_within_it(tmp_path, decode, on_error, onednn):
    content = tf.io.encode_jpeg(picture(900, 1200)).numpy()
    for number in range(200):
        (tmp_path / f"{number}.jpg").write_bytes(content)
    command = [sys.executable, "-c", MEMORY, str(tmp_path), decode, on_error, "128MiB"]
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": str(onednn)}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert int(ended.stdout) <= 128 << 20
