"""Inputs of a step given as specs, tensors, arrays or datasets mean the same step."""

from dataclasses import dataclass

import keras
import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt
from lowtide.errors import LowtideError
from lowtide.tf.trace.specs import as_specs
from lowtide.tide.explain import breakdown_at
from lowtide.tide.tide import Tide

ROWS = 24
X = np.zeros((ROWS, 6), "float32")
Y = np.zeros((ROWS, 3), "float32")


@pytest.fixture(scope="module")
def model():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)])
    model.compile("adam", "mse")
    return model


def held(tide: Tide) -> tuple[int | None, ...]:
    """The rows, and what the step holds before it begins; its peak differs a little from trace to trace."""
    kinds = breakdown_at(tide, 0)
    return tide.batch_size, kinds["weights"], kinds["optimizer"], kinds["input"]


@pytest.fixture(scope="module")
def expected(model):
    return held(lt.predict(model, tf.TensorSpec((ROWS, 6)), tf.TensorSpec((ROWS, 3))))


def test_the_step_holds_weights_slots_and_the_batch(expected):
    weights = 4 * (6 * 16 + 16 + 16 * 3 + 3)
    assert expected[0] == ROWS
    assert weights <= expected[1] < weights + 64
    assert 2 * weights <= expected[2] < 2 * weights + 64
    assert expected[3] == X.nbytes + Y.nbytes


@pytest.mark.parametrize(
    "given",
    [
        (X, Y),
        (X.astype("float64"), Y.astype("float64")),
        (tf.constant(X), tf.constant(Y)),
        (keras.KerasTensor((ROWS, 6)), keras.KerasTensor((ROWS, 3))),
        (tf.data.Dataset.from_tensor_slices((X, Y)).batch(ROWS, drop_remainder=True),),
        (tf.data.Dataset.from_tensor_slices((X, Y)).repeat(5).batch(ROWS).map(lambda x, y: (x, y)).prefetch(2),),
    ],
    ids=["arrays", "float64", "tensors", "keras tensors", "whole batches", "pipeline"],
)
def test_a_model_is_predicted_for_whatever_has_a_shape(model, expected, given):
    assert held(lt.predict(model, *given)) == expected


def test_rows_of_arrays_give_way_to_a_batch_size(model):
    many = np.zeros((1000, 6), "float32"), np.zeros((1000, 3), "float32")
    assert lt.predict(model, *many, batch_size=ROWS).batch_size == ROWS
    assert lt.predict(model, X[:0], Y[:0], batch_size=ROWS).batch_size == ROWS
    answer = lt.max_batch_size(model, *many, budget="1MiB")
    assert answer.batch_size > ROWS
    assert answer.safe_bytes <= 1 << 20


def test_a_function_keeps_the_dtypes_of_arrays():
    weights = tf.Variable(tf.zeros((6, 3), tf.float64))

    def step(x):
        weights.assign_sub(tf.transpose(x) @ (x @ weights))

    expected = held(lt.predict(step, tf.TensorSpec((ROWS, 6), tf.float64)))
    assert expected[3] == 2 * X.nbytes
    assert held(lt.predict(step, X.astype("float64"))) == expected
    assert held(lt.plan(step, tf.constant(X, tf.float64), budget="1GiB").before) == expected


def test_what_has_no_shape_stays_as_it_is():
    spec = tf.TensorSpec((None, 3), tf.int32)
    assert as_specs((spec, True, {"a": np.float32(2.0)})) == (spec, True, {"a": tf.TensorSpec((), tf.float32)})


def test_batches_of_a_dataset_that_has_none_stay_open():
    dataset = tf.data.Dataset.from_generator(lambda: iter(()), output_signature=tf.TensorSpec((None, 6)))
    assert as_specs((dataset,)) == (tf.TensorSpec((None, 6)),)


def test_a_dataset_alone_is_a_forecast():
    dataset = tf.data.Dataset.from_tensor_slices(X).batch(4)
    assert lt.predict(dataset).peak_bytes == lt.feed.predict(dataset).peak_bytes


@pytest.mark.parametrize("names", [("a", "z"), ("z", "a")])
def test_outputs_in_a_dictionary_are_predicted_in_any_order(names):
    inputs = keras.Input((6,))
    outputs = {"z": keras.layers.Dense(3), "a": keras.layers.Dense(5)}
    model = keras.Model(inputs, {name: outputs[name](inputs) for name in names})
    model.compile("sgd", {"z": "mse", "a": keras.losses.SparseCategoricalCrossentropy(from_logits=True)})
    specs = {"z": tf.TensorSpec((ROWS, 3)), "a": tf.TensorSpec((ROWS,), tf.int32)}
    expected = held(lt.predict(model, tf.TensorSpec((ROWS, 6)), specs))
    assert expected[3] == 4 * ROWS * (6 + 3 + 1)
    assert held(lt.predict(model, batch_size=ROWS)) == expected


def test_inputs_of_any_size_ask_for_specs():
    model = keras.Sequential(
        [keras.Input((None, None, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3)]
    )
    model.compile("sgd", "mse")
    with pytest.raises(LowtideError, match=r"predict\(model, x_spec, y_spec, batch_size=") as caught:
        lt.predict(model, batch_size=2)
    assert "returns (model, x_spec, y_spec)" in caught.value.command_line()
    assert lt.predict(model, np.zeros((2, 8, 8, 3), "float32"), np.zeros((2, 3), "float32")).batch_size == 2


def test_a_list_of_numbers_is_refused_in_one_line(model):
    with pytest.raises(LowtideError, match=r"arrays, tensors, specs or one dataset.*np\.asarray"):
        lt.predict(model, X.tolist(), Y.tolist())


class _Batches(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return X, Y


def test_the_first_batch_of_a_py_dataset_is_predicted(model, expected):
    assert held(lt.predict(model, _Batches())) == expected


REFUSED = {
    "a ragged tensor": ((tf.ragged.constant([[1.0], [2.0, 3.0]]), Y), "depends on its values.*lt.measure"),
    "a ragged spec": ((tf.RaggedTensorSpec((None, None)), Y), "depends on its values"),
    "a sparse tensor": ((tf.sparse.from_dense(X), Y), "depends on its values"),
    "objects": ((np.zeros((ROWS, 6), object), Y), "array of Python objects.*dtype="),
    "a generator": ((iter([(X, Y)]),), r"predict\(model, \*next\(generator\)\)"),
    "a dataset and an array": ((tf.data.Dataset.from_tensors(X), Y), "pass the dataset alone"),
    "no targets": ((X, None), "needs targets"),
    "a pair": (((X, Y),), "pass x and y as two arguments"),
    "four arguments": ((X, X, Y, Y), "x, y and sample_weight.*as one list"),
    "no rows": ((X[:0], Y[:0]), r"no rows \(given: \(0, 6\), \(0, 3\)\).*at least one row"),
    "texts": ((np.full((ROWS, 6), "a"), Y), r"float32.*texts.*\(given: \(24, 6\) string\).*pass numbers"),
    "texts as targets": ((X, np.full((ROWS, 3), "a", object)), r"texts.*\(given: \(24, 3\) string\)"),
    "examples": ((tf.data.Dataset.from_tensor_slices((X, Y)),), r"one example, not a batch \(given: \(6,\)\).*\.batch"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_model_is_fed_with_is_refused_with_what_to_do(model, name):
    given, message = REFUSED[name]
    with pytest.raises(LowtideError, match=message):
        lt.predict(model, *given)


def test_texts_that_a_step_reads_as_texts_are_predicted():
    def step(texts):
        return tf.strings.to_number(texts) * 2.0

    assert lt.predict(step, np.full((ROWS, 6), "7")).peak_bytes > ROWS * 6 * 24
    with pytest.raises(LowtideError, match=r"float32.*texts"):
        lt.predict(lambda texts: tf.cast(texts, tf.float32), np.full((ROWS, 6), "7"))


def test_targets_of_none_are_left_out(model, expected):
    assert held(lt.predict(model, X, Y, None)) == expected


def test_datasets_that_are_batched_before_they_are_zipped_have_a_batch_size():
    rows = tf.data.Dataset.from_tensor_slices(X)
    assert as_specs((tf.data.Dataset.zip(rows.batch(5), rows.batch(5)),))[0].shape[0] == 5
    assert as_specs((tf.data.Dataset.zip(rows.batch(5), rows.batch(6)),))[0].shape[0] is None
    words = tf.data.Dataset.from_generator(lambda: iter(()), output_signature=tf.TensorSpec((None,)))
    assert as_specs((words.padded_batch(5, [None]).unbatch(),)) == (tf.TensorSpec((None,)),)


@pytest.fixture(scope="module")
def product():
    weights = tf.Variable(tf.ones((6, 64)))

    def product(x, y, rate=1.0, *, scale=1.0):
        del y
        return tf.reduce_sum(x @ weights) * rate * scale

    return product


def test_what_differs_between_two_calls_of_a_function_differs_in_the_answers(product):
    many, few = lt.predict(product, X.repeat(100, 0), Y), lt.predict(product, X, Y.repeat(100, 0))
    assert many.peak_bytes > 2 * few.peak_bytes
    alike = [lt.predict(product, *(np.repeat(each, times, 0) for each in (X, Y))) for times in (10, 2)]
    assert [tide.batch_size for tide in alike] == [10 * ROWS, 2 * ROWS]
    assert alike[0].peak_bytes > 2 * alike[1].peak_bytes
    assert lt.predict(first_of_dictionary, {"x": X}).batch_size == ROWS
    with pytest.raises(LowtideError, match="KeyError"):
        lt.predict(first_of_dictionary, {"z": X})


def first_of_dictionary(batch):
    return tf.reduce_sum(batch["x"])


def test_inputs_without_a_common_batch_have_no_largest_batch(product):
    for ask in (lambda: lt.max_batch_size(product, X, Y[:5], budget="1MiB"), lambda: lt.predict(product, batch_size=4)):
        with pytest.raises(LowtideError, match=r"is known to be the batch.*TensorSpec"):
            ask()


@dataclass
class _Pair:
    x: object
    y: object


def test_arguments_that_do_not_fit_the_parameters_are_told_as_python_does(product):
    with pytest.raises(LowtideError, match=r"TypeError: missing a required argument: 'y' \(given: specs"):
        lt.predict(product, X)
    with pytest.raises(LowtideError, match=r"too many positional arguments \(given: .*, 0\.5, True\)"):
        lt.predict(product, X, Y, 0.5, True)
    with pytest.raises(LowtideError, match=r"cannot trace an argument of type _Pair \(given: specs _Pair\)"):
        lt.predict(lambda pair: tf.reduce_sum(pair.x), _Pair(X, Y))


def test_a_dataset_is_predicted_without_other_arguments():
    dataset = tf.data.Dataset.from_tensor_slices(X).batch(4)
    for given, settings in (((), {"batch_size": 8}), ((X,), {})):
        with pytest.raises(LowtideError, match="has its own batches"):
            lt.predict(dataset, *given, **settings)


def test_inputs_without_targets_are_told_what_is_missing(model):
    for given in (X, tf.data.Dataset.from_tensor_slices(X).batch(ROWS)):
        with pytest.raises(LowtideError, match="needs targets"):
            lt.predict(model, given)


def test_a_batch_size_may_come_from_numpy(model, expected):
    assert held(lt.predict(model, batch_size=np.int64(ROWS))) == expected
