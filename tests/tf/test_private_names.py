"""The installed TensorFlow and Keras have every private name that the source uses."""

import ctypes
import importlib
import mmap
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import tracing_compilation
from tensorflow.python.framework import op_def_registry, ops

from tests import private_names

LIBRARIES = [Path(tf.sysconfig.get_lib()) / f"libtensorflow_{part}.so.2" for part in ("framework", "cc")]


def find(name: str) -> object:
    """A module, or what is in one, by its full name."""
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ImportError:
        return getattr(find(module), attribute)


@pytest.fixture(scope="module")
def samples():
    """One object of each kind that has private attributes in the table."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    model.fit(tf.zeros([8, 4]), tf.zeros([8, 2]), verbose=0)
    tf.random.set_seed(0)
    variable = tf.Variable(tf.zeros([2]))
    double = tf.function(lambda x: 2 * x * variable)
    concrete = double.get_concrete_function(tf.TensorSpec([2]))
    numbers = tf.data.Dataset.range(8)
    mapped = numbers.map(lambda x: x)
    with tf.Graph().as_default():
        session, interactive = tf.compat.v1.Session(), tf.compat.v1.InteractiveSession()
        interactive.close()
        session.close()
    return {
        "context": context.context(),
        "model": model,
        "optimizer": model.optimizer,
        "functional model": keras.Model(model.inputs, model.outputs),
        "layer": model.layers[0],
        "tensorboard callback": keras.callbacks.TensorBoard(),
        "keras tensor": model.outputs[0],
        "variable": variable,
        "handle": variable.handle,
        "eager tensor": tf.zeros([2]),
        "ragged tensor": tf.ragged.constant([[1], [2, 3]]),
        "function": tf.constant,
        "tf.function": double,
        "concrete function": concrete,
        "graph": concrete.graph,
        "operation": concrete.graph.get_operations()[0],
        "tracing_compilation": tracing_compilation,
        "gradient registry": ops.gradient_registry,
        "session": session,
        "interactive session": interactive,
        "iterator": iter(numbers),
        "batch dataset": numbers.batch(2),
        "padded_batch dataset": numbers.padded_batch(2),
        "shuffle dataset": numbers.shuffle(2),
        "rebatch dataset": numbers.batch(4).rebatch(2),
        "cache dataset": numbers.cache(),
        "filter dataset": numbers.filter(lambda x: x > 1),
        "map dataset": mapped,
        "parallel map dataset": numbers.map(lambda x: x, num_parallel_calls=2),
        "map function": mapped._map_func,
        "scan dataset": numbers.scan(tf.constant(0, tf.int64), lambda state, x: (state, x)),
        "window dataset": numbers.window(2),
        "zip dataset": tf.data.Dataset.zip(numbers, numbers),
        "group_by_window dataset": numbers.group_by_window(lambda x: x % 2, lambda key, rows: rows.batch(2), 2),
        "from_tensors dataset": tf.data.Dataset.from_tensors([1, 2]),
        "record dataset": tf.data.TextLineDataset("lines")._impl._map_func._func("lines"),
        "array adapter": ArrayDataAdapter(np.zeros(2)),
        "PyDataset adapter": PyDatasetAdapter(keras.utils.PyDataset()),
        "adapted dataset": tf.compat.v1.data.Dataset.range(8),
        "wrapped dataset": tf.data.TFRecordDataset("records"),
    }


@pytest.mark.parametrize("entry", private_names.MODULE_NAMES, ids=lambda entry: entry.name)
def test_a_module_has_the_name(entry):
    # Raises an error if it is missing; a variable of a module may be None.
    find(entry.name)


@pytest.mark.parametrize("entry", private_names.ATTRIBUTES, ids=lambda entry: entry.name)
def test_an_object_has_the_attribute(samples, entry):
    for kind in entry.on.split(", "):
        assert hasattr(samples[kind], entry.name), kind


@pytest.mark.parametrize("entry", private_names.OPS, ids=lambda entry: entry.name)
def test_the_op_is_registered(entry):
    assert op_def_registry.get(entry.name) is not None


@pytest.mark.parametrize(
    "entry", [*private_names.ENVIRONMENT_VARIABLES, *private_names.NODE_ATTRIBUTES], ids=lambda entry: entry.name
)
def test_the_library_contains_the_string(entry):
    # oneDNN adds its prefix at run time.
    assert library_contains(entry.name.removeprefix("ONEDNN_").encode())


def library_contains(text: bytes) -> bool:
    for path in LIBRARIES:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(text) >= 0:
                return True
    return False


@pytest.mark.parametrize("entry", private_names.LIBRARY_SYMBOLS, ids=lambda entry: entry.name)
def test_the_library_exports_the_symbol(entry):
    assert hasattr(ctypes.CDLL(str(LIBRARIES[0])), entry.name)
