"""Predictions over sets larger than memory: the answers of `model.predict`, in a file, also after a restart."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])


@pytest.fixture
def rows(tmp_path):
    rows = np.random.default_rng(1).normal(size=(1_000, 6)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    return rows


class Tired:
    """A model that gives up after some batches."""

    def __init__(self, model, batches):
        self.model, self.left, self.seen = model, batches, 0

    def predict_on_batch(self, batch):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        self.seen += 1
        return self.model.predict_on_batch(batch)


def test_the_answers_are_those_of_predict(model, rows, tmp_path, capsys):
    expected = model.predict(rows, verbose=0)
    found = lt.predict_in_batches(model, tmp_path / "rows.npy", to=tmp_path / "out.npy", budget="64KiB")
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert isinstance(found, np.memmap)
    again = Tired(model, 0)
    np.testing.assert_array_equal(
        lt.predict_in_batches(again, tmp_path / "rows.npy", to=tmp_path / "out.npy", budget="64KiB"), found
    )
    data = tf.data.Dataset.from_tensor_slices((rows, np.zeros(1_000))).batch(64)
    of_dataset = lt.predict_in_batches(model, data, to=tmp_path / "other.npy", progress=False)
    np.testing.assert_allclose(of_dataset, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["array", "dataset"])
@pytest.mark.parametrize("stops", [1, 40, 62])
def test_the_same_call_goes_on_where_it_was(model, rows, tmp_path, kind, stops):
    given = tmp_path / "rows.npy" if kind == "array" else tf.data.Dataset.from_tensor_slices(rows).batch(16)
    options = {"to": tmp_path / "out.npy", "progress": False} | ({"batch_size": 16} if kind == "array" else {})
    with pytest.raises(KeyboardInterrupt):
        lt.predict_in_batches(Tired(model, stops), given, **options)
    assert not (tmp_path / "out.npy").exists()
    rest = Tired(model, -1)
    found = lt.predict_in_batches(rest, given, **options)
    np.testing.assert_allclose(found, model.predict(rows, verbose=0), rtol=1e-5)
    assert rest.seen == 63 - stops


def test_what_cannot_go_on_is_refused(model, rows, tmp_path):
    path, to = tmp_path / "rows.npy", tmp_path / "out.npy"
    with pytest.raises(KeyboardInterrupt):
        lt.predict_in_batches(Tired(model, 2), path, to=to, batch_size=16, progress=False)
    with pytest.raises(lt.LowtideError, match="begun with something else"):
        lt.predict_in_batches(model, path, to=to, batch_size=32, progress=False)
    found = lt.predict_in_batches(model, path, to=to, batch_size=32, progress=False, resume=False)
    assert found.shape == (1_000, 3)
    several = keras.Model(model.inputs, [model.outputs[0], model.outputs[0]])
    with pytest.raises(lt.LowtideError, match="several outputs"):
        lt.predict_in_batches(several, path, to=tmp_path / "several.npy", progress=False)
