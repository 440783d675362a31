"""Graphs found without TensorFlow in files that TensorFlow and Keras really write."""

import random
from pathlib import Path

import keras
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, saved_model_pb2
from tensorflow.core.util import event_pb2
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from lowtide.errors import LowtideError
from lowtide.sources.graphs.find_graphs import find_files, find_graphs
from tests.children import run_python

GraphDef = tf.compat.v1.GraphDef


@tf.function
def step(x):
    for _ in tf.range(3):
        x = tf.nn.relu(x @ tf.ones((4, 4)))
    return tf.reduce_sum(x)


X = tf.ones((2, 4))
PROGRAMS = Path(__file__).parent / "programs"


def parsed(span):
    """What TensorFlow reads where a graph was found."""
    return GraphDef.FromString(span.path.read_bytes()[span.start : span.end])


def events_of(path):
    return [event_pb2.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path))]


def only_file(folder):
    (path,) = find_files(folder)
    return path


@pytest.fixture
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory):
    """What tf.summary.graph writes."""
    folder = tmp_path_factory.mktemp("graph")
    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        tf.summary.graph(step.get_concrete_function(X).graph)
    writer.close()
    return only_file(folder)


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory):
    """What tf.summary.trace_export writes."""
    folder = tmp_path_factory.mktemp("trace")
    # In a process of its own: TensorFlow exports the functions of the whole process, those of other tests too.
    run_python(PROGRAMS / "export_trace.py", folder)
    return only_file(folder)


@pytest.fixture(scope="module")
def model():
    inputs = keras.Input((4,), name="x")
    inner_inputs = keras.Input((4,), name="y")
    inner = keras.Model(inner_inputs, keras.layers.Dense(3, name="dense")(inner_inputs), name="inner")
    hidden = keras.layers.Dense(3, activation="relu", name="hidden")(inputs)
    outputs = keras.layers.Add(name="add")([hidden, inner(inputs)])
    model = keras.Model(inputs, outputs, name="net")
    model.compile("adam", "mse")
    model.train_on_batch(tf.ones((8, 4)), tf.ones((8, 3)))
    return model


LAYERS = [
    ("x", "InputLayer", []),
    ("hidden", "Dense", ["x"]),
    ("inner/y", "InputLayer", ["x"]),
    ("inner/dense", "Dense", ["inner/y"]),
    ("add", "Add", ["hidden", "inner/dense"]),
]


def wiring(graph):
    return [(node.name, node.op, list(node.input)) for node in graph.node]


@pytest.fixture(scope="module")
def saved_folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    model.export(str(folder), verbose=False)
    return folder


def test_a_graph_summary(graph_file, cache):
    found = find_graphs(graph_file, cache)
    assert (found.kind, found.notes) == ("events", ())
    (span,) = found.spans
    assert (span.label, span.notes) == ("graph", ())
    (written,) = [event.graph_def for event in events_of(graph_file) if event.graph_def]
    assert parsed(span) == GraphDef.FromString(written)
    assert len(parsed(span).library.function) > 0


def test_a_trace(trace_file, cache):
    (value,) = [value for event in events_of(trace_file) for value in event.summary.value]
    metadata = config_pb2.RunMetadata.FromString(value.tensor.string_val[0])
    count = len(metadata.function_graphs)
    # TensorFlow also traces what runs eagerly around the step for the first time, and lists every partition twice.
    assert count >= 1
    assert len(metadata.partition_graphs) == sum(len(each.partition_graphs) for each in metadata.function_graphs)
    expected = []
    for position, function in enumerate(metadata.function_graphs, 1):
        name = f"train_step · function {position} of {count}" if count > 1 else "train_step"
        expected.append((f"{name} · before optimization", function.pre_optimization_graph))
        expected.append((f"{name} · after optimization", function.post_optimization_graph))
        expected += [(f"{name} · partition 1 of 1 (CPU:0)", graph) for graph in function.partition_graphs]
    found = find_graphs(trace_file, cache)
    assert found.notes == ()
    assert [(span.label, parsed(span)) for span in found.spans] == expected


def test_run_metadata_and_meta_graphs_of_the_first_tensorflow(tmp_path, cache):
    """One session file with a graph, its meta graph, and the metadata of a run."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        total = tf.compat.v1.placeholder(tf.float32, (2,), name="x") + 1.0
        writer = tf.compat.v1.summary.FileWriter(str(tmp_path), graph)
        metadata = config_pb2.RunMetadata()
        options = config_pb2.RunOptions(output_partition_graphs=True)
        session.run(total, {"x:0": [1, 2]}, options=options, run_metadata=metadata)
        writer.add_run_metadata(metadata, "first run")
        writer.close()
    found = find_graphs(only_file(tmp_path), cache)
    assert found.notes == ()
    labels = [span.label for span in found.spans]
    assert labels == ["graph", "meta graph · graph", "first run · partition 1 of 1 (CPU:0)"]
    assert parsed(found.spans[0]) == parsed(found.spans[1]) == graph.as_graph_def(add_shapes=True)
    assert parsed(found.spans[2]) == metadata.partition_graphs[0]


def test_what_the_tensorboard_callback_of_keras_writes(model, tmp_path, cache):
    callback = keras.callbacks.TensorBoard(str(tmp_path), write_graph=True)
    callback.set_model(model)
    callback.on_train_begin()
    callback.on_train_batch_begin(0)
    callback.on_train_batch_end(0)
    callback.on_train_end()
    found = find_graphs(only_file(tmp_path), cache)
    assert found.notes == ()
    # The graph of the step is missing: Keras 3 writes it of a tf.function alone, and its own is no longer one.
    (span,) = found.spans
    assert span.label == "keras · conceptual graph of the Keras model"
    assert wiring(parsed(span)) == LAYERS


def test_a_keras_file(model, tmp_path, cache):
    model.save(tmp_path / "net.keras")
    (span,) = find_graphs(tmp_path / "net.keras", cache).spans
    assert span.label == "Keras model net"
    graph = parsed(span)
    assert wiring(graph) == LAYERS
    hidden = next(node for node in graph.node if node.name == "hidden")
    assert (hidden.attr["units"].s, hidden.attr["activation"].s) == (b"3", b"relu")
    assert hidden.attr["dtype"].type == tf.float32.as_datatype_enum
    assert [size.size for size in hidden.attr["_output_shapes"].list.shape[0].dim] == [-1, 3]


def test_a_saved_model(saved_folder, cache):
    assert [path.name for path in find_files(saved_folder)] == ["saved_model.pb"]
    found = find_graphs(saved_folder, cache)
    assert (found.kind, found.notes) == ("saved_model", ())
    *served, span = found.spans
    assert [each.label for each in served] == ["serve · serving_default", "serve · serve"]
    assert span.label == "serve"
    assert span.notes == ("signatures: __saved_model_init_op, serve, serving_default",)
    written = saved_model_pb2.SavedModel.FromString((saved_folder / "saved_model.pb").read_bytes())
    assert parsed(span) == written.meta_graphs[0].graph_def
    assert len(parsed(span).library.function) > 0


def test_a_frozen_graph(model, tmp_path, cache):
    function = tf.function(model).get_concrete_function(tf.TensorSpec((2, 4)))
    frozen = convert_variables_to_constants_v2(function).graph.as_graph_def()
    tf.io.write_graph(frozen, str(tmp_path), "frozen.pb", as_text=False)
    found = find_graphs(tmp_path / "frozen.pb", cache)
    assert found.kind == "graph"
    assert parsed(found.spans[0]) == frozen


def test_a_meta_graph_file(tmp_path, cache):
    with tf.Graph().as_default() as graph:
        tf.compat.v1.get_variable("weight", (2,))
        tf.compat.v1.train.export_meta_graph(str(tmp_path / "model.meta"))
    (span,) = find_graphs(tmp_path / "model.meta", cache).spans
    written = meta_graph_pb2.MetaGraphDef.FromString((tmp_path / "model.meta").read_bytes())
    assert parsed(span) == written.graph_def
    assert [node.name for node in parsed(span).node] == [op.name for op in graph.get_operations()]


def test_text_form_says_the_same(saved_folder, graph_file, model, tmp_path, cache):
    saved = saved_model_pb2.SavedModel.FromString((saved_folder / "saved_model.pb").read_bytes())
    function = tf.function(model).get_concrete_function(tf.TensorSpec((2, 4)))
    graphs = [
        saved.meta_graphs[0].graph_def,
        parsed(find_graphs(graph_file, cache).spans[0]),
        convert_variables_to_constants_v2(function).graph.as_graph_def(),
    ]
    for position, graph in enumerate(graphs):
        path = tmp_path / f"{position}.pbtxt"
        path.write_text(text_format.MessageToString(graph, as_utf8=bool(position)))
        found = find_graphs(path, cache)
        assert (found.kind, found.notes) == ("text graph", ())
        read = parsed(found.spans[0])
        assert [*read.node] == [*graph.node]
        assert [*read.library.function] == [*graph.library.function]
        assert read == graph
    (tmp_path / "saved_model.pbtxt").write_text(text_format.MessageToString(saved))
    *served, span = find_graphs(tmp_path / "saved_model.pbtxt", cache).spans
    assert [each.label for each in served] == ["serve · serving_default", "serve · serve"]
    assert (span.label, span.notes) == ("serve", ("signatures: __saved_model_init_op, serve, serving_default",))
    assert parsed(span) == graphs[0]


@pytest.mark.parametrize("which", ["graph_file", "trace_file"])
def test_an_event_file_that_is_cut_anywhere(which, request, tmp_path, cache):
    whole = request.getfixturevalue(which)
    data = whole.read_bytes()
    expected = [(span.start, span.end) for span in find_graphs(whole, cache).spans]
    path = tmp_path / "events.out.tfevents.1"
    first = int.from_bytes(data[:8], "little") + 16
    for size in range(0, len(data), 1 if len(data) < 8192 else len(data) // 1024):
        path.write_bytes(data[:size])
        found = find_graphs(path, cache)
        # Graphs stay where they are. How many functions there are is not known before the end, nor which partition
        # belongs to which, so that some may be listed twice.
        places = [(span.start, span.end) for span in found.spans]
        assert all(("the file ends in the middle of it" in span.notes) == (span.end > size) for span in found.spans)
        whole_ones = {place for place in expected if place[1] <= size}
        assert whole_ones <= set(places)
        assert len(found.notes) == (size not in (0, first))


@pytest.mark.parametrize("which", ["graph_file", "trace_file", "saved_folder"])
def test_a_flipped_bit_is_noted_and_stops_nothing(which, request, tmp_path, cache):
    source = request.getfixturevalue(which)
    data = (source / "saved_model.pb" if source.is_dir() else source).read_bytes()
    path = tmp_path / ("saved_model.pb" if source.is_dir() else "events.out.tfevents.1")
    random_bits = random.Random(5)
    for _ in range(300):
        position = random_bits.randrange(len(data))
        damaged = bytearray(data)
        damaged[position] ^= 1 << random_bits.randrange(8)
        path.write_bytes(damaged)
        try:
            found = find_graphs(path, cache)
        except LowtideError:
            assert position < 64, "only the first bytes decide what a file is"
            continue
        if not source.is_dir():
            assert found.notes, f"bit of byte {position}"
