"""Sizes of arrays are read from code, known data sets and headers of files."""

import ast
from pathlib import Path

import numpy as np
import pytest

from lowtide.doctor.module import Module
from lowtide.doctor.sizes import describe, find_size
from lowtide.doctor.source import Code

IMPORTS = "import h5py\nimport numpy as np\nfrom tensorflow import keras\n"


def size_of(code: str, folder: Path = Path()):
    """Return the module and the size of `x` in the last line of a program."""
    module = Module(Code(folder / "program.py", IMPORTS + code + "\nx"))
    last = module.tree.body[-1]
    assert isinstance(last, ast.Expr)
    return module, find_size(module, last.value)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("x = np.zeros((10, 20))", 1600),
        ("N = 100\nx = np.ones((N, 2 * N), dtype=np.float32)", 80_000),
        ("x = np.random.rand(10, 10).astype('float16')", 200),
        ("x = np.random.default_rng(0).integers(0, 9, size=(5, 5))", 200),
        ("x = np.zeros((10, 20))[:4, ..., None]", 640),
        ("x = np.concatenate([np.zeros(10), np.zeros(20)])", 240),
        ("(x, y), _ = keras.datasets.mnist.load_data()", 60000 * 28 * 28),
        ("_, (x, y) = keras.datasets.mnist.load_data()\nx = x.astype('float32') / 255", 4 * 10000 * 28 * 28),
        ("(x, y), _ = keras.datasets.cifar10.load_data()\nx = x / 255.0", 8 * 50000 * 32 * 32 * 3),
        ("data = keras.datasets.cifar10.load_data()\nx = data[1][0]", 10000 * 32 * 32 * 3),
        ("def load():\n    a = np.ones(10)\n    return a, np.ones(20)\nz, x = load()", 160),
        ("(x, y), _ = keras.datasets.mnist.load_data()\nx //= 2", 60000 * 28 * 28),
    ],
)
def test_bytes_follow_from_the_code(code: str, count: int):
    _, size = size_of(code)
    assert size is not None
    assert size.bytes == count


@pytest.mark.parametrize(
    "code",
    [
        "def f(x): pass",
        "x = np.load('x.npy', mmap_mode='r')",
        "x = np.load('x.npy')[0]",
        "x = np.load('x.npy')[:100]",
        "x = np.load('class_weights.npy')",
        "x = np.zeros(n)",
        "x = 'text'",
        "for x in np.load('x.npy'): pass",
    ],
)
def test_what_is_not_known_to_be_an_array_has_no_size(code: str):
    assert size_of(code)[1] is None


def test_a_file_that_is_not_there_has_unknown_bytes():
    module, size = size_of("x = np.load('nowhere.npz')['images']")
    assert size is not None
    assert size.bytes is None
    assert size.is_at_least(1 << 40)
    assert describe(module, size) == "the array that numpy.load reads at line 4"


@pytest.mark.parametrize("name", ["images.npy", "images.npz"])
def test_the_header_of_a_file_tells_its_bytes(name: str, tmp_path: Path):
    array = np.zeros((1000, 8), np.float32)
    if name.endswith("npz"):
        np.savez(tmp_path / name, images=array, labels=np.zeros(3))
    else:
        np.save(tmp_path / name, array)
    module, size = size_of(f"x = np.load('{name}')", tmp_path)
    assert size is not None
    assert size.bytes == array.nbytes
    assert describe(module, size) == "the 31.2 KiB array loaded at line 4"


def test_a_damaged_file_has_unknown_bytes(tmp_path: Path):
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00")
    _, size = size_of("x = np.load('x.npy')", tmp_path)
    assert size is not None
    assert size.bytes is None
