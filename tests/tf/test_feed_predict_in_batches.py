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
def test_the_same_call_continues_where_it_stopped(model, rows, tmp_path, kind, stops):
    given = tmp_path / "rows.npy" if kind == "array" else tf.data.Dataset.from_tensor_slices(rows).batch(16)
    options = {"to": tmp_path / "out.npy", "progress": False} | ({"batch_size": 16} if kind == "array" else {})
    with pytest.raises(KeyboardInterrupt):
        lt.predict_in_batches(Tired(model, stops), given, **options)
    assert not (tmp_path / "out.npy").exists()
    rest = Tired(model, -1)
    found = lt.predict_in_batches(rest, given, **options)
    np.testing.assert_allclose(found, model.predict(rows, verbose=0), rtol=1e-5)
    assert rest.seen == 63 - stops


def test_a_state_that_cannot_continue_is_refused(model, rows, tmp_path):
    path, to = tmp_path / "rows.npy", tmp_path / "out.npy"
    with pytest.raises(KeyboardInterrupt):
        lt.predict_in_batches(Tired(model, 2), path, to=to, batch_size=16, progress=False)
    with pytest.raises(lt.LowtideError, match="begun with other inputs"):
        lt.predict_in_batches(model, path, to=to, batch_size=32, progress=False)
    found = lt.predict_in_batches(model, path, to=to, batch_size=32, progress=False, resume=False)
    assert found.shape == (1_000, 3)
    with pytest.raises(KeyboardInterrupt):
        lt.predict_in_batches(Tired(model, 2), path, to=tmp_path / "other.npy", batch_size=16, progress=False)
    wider = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)])
    with pytest.raises(lt.LowtideError, match=r"\(4,\) float32 after \(3,\) float32"):
        lt.predict_in_batches(wider, path, to=tmp_path / "other.npy", batch_size=16, progress=False)


@pytest.fixture(scope="module")
def several():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6,))
    return keras.Model(inputs, {"size": keras.layers.Dense(2)(inputs), "kind": keras.layers.Dense(5)(inputs)})


def test_several_outputs_go_to_several_files(several, rows, tmp_path):
    path = tmp_path / "rows.npy"
    expected = several.predict(rows, verbose=0)
    to = {"kind": tmp_path / "kind.npy", "size": tmp_path / "size.npy"}
    found = lt.predict_in_batches(several, path, to=to, batch_size=64, progress=False)
    for name in to:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(np.load(to[name]), found[name])
    only = lt.predict_in_batches(several, path, to={"kind": tmp_path / "only.npy"}, batch_size=64, progress=False)
    np.testing.assert_array_equal(only["kind"], found["kind"])
    listed = keras.Model(several.inputs, [several.output["size"], several.output["kind"]])
    pair = lt.predict_in_batches(
        listed, path, to=[tmp_path / "0.npy", tmp_path / "1.npy"], batch_size=64, progress=False
    )
    np.testing.assert_allclose(pair[1], expected["kind"], rtol=1e-4, atol=1e-6)


def test_files_that_do_not_fit_the_outputs_are_refused(several, rows, tmp_path):
    path = tmp_path / "rows.npy"
    with pytest.raises(lt.LowtideError, match=r'several outputs \(.*give to=\{".*": ".*.npy", '):
        lt.predict_in_batches(several, path, to=tmp_path / "a.npy", progress=False)
    with pytest.raises(lt.LowtideError, match="no output colour"):
        lt.predict_in_batches(several, path, to={"colour": tmp_path / "b.npy"}, progress=False)
    with pytest.raises(lt.LowtideError, match="a separate file"):
        lt.predict_in_batches(several, path, to=[tmp_path / "c.npy"] * 2, progress=False)


class Interrupted(keras.layers.Layer):
    """A layer that gives up in the middle of a run."""

    def __init__(self):
        super().__init__()
        self.left = -1

    def call(self, x):
        def count(values):
            if self.left == 0:
                raise OSError("the machine is needed elsewhere")
            self.left -= 1
            return values

        return tf.ensure_shape(tf.numpy_function(count, [x], tf.float32), x.shape)

    def compute_output_shape(self, shape):
        return shape


@pytest.mark.parametrize("kind", ["path", "feed", "compressed"])
def test_an_interrupted_run_ends_with_the_same_bytes(rows, tmp_path, kind):
    np.savez_compressed(tmp_path / "rows.npz", x=rows)
    inputs, interrupted = keras.Input((6,)), Interrupted()
    outputs = keras.layers.Dense(3)(interrupted(inputs))
    model = keras.Model(inputs, {"a": outputs, "b": keras.layers.Dense(2)(outputs)})

    def run(name):
        given = tmp_path / ("rows.npz" if kind == "compressed" else "rows.npy")
        if kind == "feed":
            given = lt.feed.arrays(given, batch_size=16, budget="1MiB").map(lambda x: (x, 0))
        to = {output: tmp_path / f"{name}-{output}.npy" for output in "ab"}
        lt.predict_in_batches(
            model, given, to=to, batch_size=None if kind == "feed" else 16, budget="1MiB", progress=False
        )
        return [path.read_bytes() for path in to.values()]

    whole = run("whole")
    for left in (35, 3):
        interrupted.left = left
        with pytest.raises(tf.errors.OpError, match="needed elsewhere"):
            run("part")
    interrupted.left = -1
    assert run("part") == whole


def test_every_dataset_of_ours_can_be_predicted(model, rows, tmp_path):
    expected = model.predict(rows, verbose=0)
    spec = (tf.TensorSpec((6,), tf.float32), tf.TensorSpec((), tf.int64))
    generated = lt.feed.generator(lambda: zip(rows, range(1_000), strict=True), spec, batch_size=64, budget="1MiB")
    arrays = lt.feed.arrays(tmp_path / "rows.npy", np.arange(1_000), batch_size=64, budget="1MiB")
    for number, data in enumerate((generated, arrays)):
        found = lt.predict_in_batches(model, data, to=tmp_path / f"{number}.npy", progress=False)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    shuffled = lt.feed.arrays(rows, batch_size=64, shuffle=True, budget="1MiB").map(lambda x: x * 2)
    with pytest.raises(lt.LowtideError, match="this dataset shuffles them"):
        lt.predict_in_batches(model, shuffled, to=tmp_path / "shuffled.npy", progress=False)
    marked = lt.feed.arrays(rows, batch_size=64, budget="1MiB", bookmark=lt.feed.Bookmark())
    with pytest.raises(lt.LowtideError, match="move the bookmark"):
        lt.predict_in_batches(model, marked, to=tmp_path / "marked.npy", progress=False)


def test_several_inputs(rows, tmp_path):
    inputs = [keras.Input((6,)), keras.Input((6,))]
    both = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Subtract()(inputs)))
    found = lt.predict_in_batches(both, (rows, rows[::-1]), to=tmp_path / "out.npy", batch_size=64, progress=False)
    np.testing.assert_allclose(found, both.predict([rows, rows[::-1]], verbose=0), rtol=1e-4, atol=1e-5)


def test_a_model_that_does_not_answer_to_each_sample_is_refused(rows, tmp_path):
    inputs = keras.Input((6,))
    mean = keras.Model(inputs, keras.layers.Lambda(lambda x: keras.ops.mean(x, axis=0))(inputs))
    with pytest.raises(lt.LowtideError, match="not one prediction for each sample"):
        lt.predict_in_batches(mean, rows, to=tmp_path / "out.npy", batch_size=64, progress=False)
