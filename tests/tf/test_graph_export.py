"""What lowtide cuts out of real Keras graphs is imported by TensorFlow, and agrees with the GraphDef."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWTIDE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def train_step(model: keras.Model, x: tf.TensorSpec, y: tf.TensorSpec):
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.optimizer.build(model.trainable_variables)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x, y, model(x, training=True))
        variables = model.trainable_variables
        model.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step.get_concrete_function(x, y).graph


def convolutions() -> tf.Graph:
    model = keras.Sequential([keras.Input((16, 16, 3))])
    for _ in range(4):
        model.add(keras.layers.Conv2D(8, 3, padding="same"))
        model.add(keras.layers.BatchNormalization())
        model.add(keras.layers.ReLU())
    model.add(keras.layers.GlobalAveragePooling2D())
    model.add(keras.layers.Dense(10))
    return train_step(model, tf.TensorSpec((4, 16, 16, 3)), tf.TensorSpec((4,), tf.int32))


def recurrent() -> tf.Graph:
    model = keras.Sequential(
        [keras.Input((10,)), keras.layers.Embedding(50, 8), keras.layers.LSTM(8), keras.layers.Dense(2)]
    )
    return train_step(model, tf.TensorSpec((4, 10), tf.int32), tf.TensorSpec((4,), tf.int32))


def variables_of_version_1() -> tf.Graph:
    with tf.Graph().as_default() as graph:
        weights = tf.compat.v1.Variable(tf.ones((4, 4)), use_resource=False)
        x = tf.compat.v1.placeholder(tf.float32, (None, 4))
        loss = tf.reduce_sum(tf.nn.top_k(tf.matmul(x, weights), 2).values)
        tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    return graph


def loop_of_version_1() -> tf.Graph:
    with tf.Graph().as_default() as graph:
        tf.compat.v1.disable_control_flow_v2()
        try:
            tf.compat.v1.while_loop(
                lambda number, x: number < 3,
                lambda number, x: (number + 1, tf.exp(tf.matmul(x, x))),
                (0, tf.ones((2, 2))),
            )
        finally:
            tf.compat.v1.enable_control_flow_v2()
    return graph


def paddings() -> tf.Graph:
    """Sizes of one shape that differ in value: reshapes, slices and paddings, in both directions."""
    model = keras.Sequential([keras.Input((17, 17, 3))])
    for filters in (8, 12, 16):
        model.add(keras.layers.ZeroPadding2D(((0, 1), (0, 1))))
        model.add(keras.layers.Conv2D(filters, 3, 2, activation="swish"))
        model.add(keras.layers.BatchNormalization())
    model.add(keras.layers.Reshape((-1, 8)))
    model.add(keras.layers.GlobalAveragePooling1D())
    model.add(keras.layers.Dense(10))
    return train_step(model, tf.TensorSpec((4, 17, 17, 3)), tf.TensorSpec((4,), tf.int32))


def joined() -> tf.Graph:
    """Joined branches of an unknown batch, whose gradients are cut at offsets that are integers."""
    inputs = x = keras.Input((8, 8, 3))
    for _ in range(3):
        x = keras.layers.Concatenate()([keras.layers.Conv2D(4, size, padding="same")(x) for size in (1, 3, 5)])
    model = keras.Model(inputs, keras.layers.Dense(10)(keras.layers.GlobalMaxPooling2D()(x)))
    return train_step(model, tf.TensorSpec((None, 8, 8, 3)), tf.TensorSpec((None,), tf.int32))


PROGRAMS = [convolutions, recurrent, paddings, joined, variables_of_version_1, loop_of_version_1]

CUTS = {
    "whole": lambda graph: graph,
    "sample": lambda graph: graph.sample(3),
    "half": lambda graph: graph.sample(2),
    "tenth": lambda graph: graph.sample(10),
    "near": lambda graph: graph.around(graph.nodes()[len(graph.nodes()) // 3].name, 4),
    "forward": lambda graph: graph.forward_only(),
    "products": lambda graph: graph.with_ops("MatMul"),
    "without constants": lambda graph: graph.without_constants(),
    "everything": lambda graph: graph.forward_only().without_constants().sample(2),
}


@pytest.fixture(
    scope="module",
    params=[(program, shapes) for program in PROGRAMS for shapes in (False, True)],
    ids=lambda given: f"{given[0].__name__}{' with shapes' if given[1] else ''}",
)
def written(request, tmp_path_factory):
    program, shapes = request.param
    definition = program().as_graph_def(add_shapes=shapes)
    path = tmp_path_factory.mktemp("graphs") / "graph.pb"
    path.write_bytes(definition.SerializeToString())
    return path, definition


def load(path) -> tf.compat.v1.GraphDef:
    definition = tf.compat.v1.GraphDef()
    definition.ParseFromString(path.read_bytes())
    return definition


def imported(definition: tf.compat.v1.GraphDef) -> tf.Graph:
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
    return graph


@pytest.mark.parametrize("name", CUTS)
def test_tensorflow_imports_what_was_cut(written, tmp_path, name):
    path, _ = written
    cut = CUTS[name](lt.graph(path))
    out = tmp_path / "out.pb"
    cut.save(out)
    graph = imported(load(out))
    kept = {box.name for box in cut.nodes() if "::" not in box.name}
    assert kept <= {operation.name for operation in graph.get_operations()}


def test_the_whole_stays_as_it_is(written, tmp_path):
    path, definition = written
    lt.graph(path).save(tmp_path / "out.pb")
    assert load(tmp_path / "out.pb") == definition


def test_large_attributes_are_emptied_and_still_imported(written, tmp_path):
    path, definition = written
    lt.graph(path).save(tmp_path / "out.pb", limit_attributes=48)
    small = load(tmp_path / "out.pb")
    assert len(small.node) == len(definition.node)
    imported(small)


def test_networkx_agrees_with_the_definition(written):
    path, definition = written
    network = lt.graph(path).to_networkx()
    edges = {(name.removeprefix("^").partition(":")[0], node.name) for node in definition.node for name in node.input}
    main = network.subgraph(name for name in network if "::" not in name)
    assert {name: data["op"] for name, data in main.nodes(data=True)} == {
        node.name: node.op for node in definition.node
    }
    assert set(main.edges) == edges
    for function in definition.library.function:
        bodies = {f"{function.signature.name}::{node.name}" for node in function.node_def}
        assert bodies <= set(network)


def test_a_frozen_graph_computes_the_same_without_pass_through_nodes(tmp_path):
    """Unlike other cuts, the forward part of a frozen graph is a program that gives the same result."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (2, 3), name="x")
        hidden = tf.identity(
            tf.identity(x @ tf.constant(np.arange(12, dtype=np.float32).reshape(3, 4))), name="kept_on"
        )
        tf.nn.relu(tf.debugging.check_numerics(hidden, "no"), name="y")
    path, out = tmp_path / "graph.pb", tmp_path / "out.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    lt.graph(path).forward_only().save(out)
    value = np.ones((2, 3), np.float32)
    results = []
    for each in (graph, imported(load(out))):
        with tf.compat.v1.Session(graph=each) as session:
            results.append(session.run("y:0", {"x:0": value}))
    assert "Identity" not in {node.op for node in load(out).node}
    np.testing.assert_array_equal(*results)


def test_a_saved_model_opens_on_what_it_serves_and_its_whole_graph_is_imported(tmp_path):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    model.export(tmp_path / "model", verbose=False)
    graph = lt.graph(tmp_path / "model")
    assert not [share.name for share in graph.stats().functions]
    assert [box.name.rpartition("/")[2] for box in graph.with_ops("MatMul").nodes()] == ["MatMul", "MatMul"]
    assert not {"SaveV2", "RestoreV2", "ShardedFilename"} & set(graph.cut.atlas.ops)
    assert any("graph 0 (serve · serving_default)" in note and "2 (serve)" in note for note in graph.notes)
    with pytest.raises(lt.LowtideError, match="TensorFlow does not import this graph: its nodes are the body"):
        graph.save(tmp_path / "out.pb")
    lt.graph(tmp_path / "model", "serve").save(tmp_path / "out.pb")
    imported(load(tmp_path / "out.pb"))


class Several(tf.Module):
    """A module with two signatures, whose names sort before `serving_default`, and a function without one."""

    def __init__(self):
        self.weights = tf.Variable(tf.ones((4, 2)))

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32)])
    def classify(self, x):
        return {"scores": tf.nn.softmax(x @ self.weights)}

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32)])
    def branch(self, x):
        return {"y": tf.cond(tf.reduce_sum(x) > 0, lambda: tf.tanh(x), lambda: tf.sin(x))}


def graphs_of(path):
    """The ops of each graph of a SavedModel, by label."""
    with pytest.raises(lt.LowtideError) as raised:
        lt.graph(path, "none")
    labels = re.findall(r"\d+ \(([^)]*)\)", str(raised.value))
    return {label: set(lt.graph(path, label).cut.atlas.ops) for label in labels}


def test_each_signature_of_a_saved_model_is_a_graph(tmp_path):
    module = Several()
    signatures = {"classify": module.classify, "serving_default": module.branch}
    tf.saved_model.save(module, tmp_path / "several", signatures=signatures)
    found = graphs_of(tmp_path / "several")
    assert list(found) == ["serve · serving_default", "serve · classify", "serve"]
    assert {"If", "Tanh", "Sin"} <= found["serve · serving_default"] or "StatelessIf" in found[
        "serve · serving_default"
    ]
    assert "Softmax" in found["serve · classify"]
    assert "Tanh" not in found["serve · classify"]
    assert ["SaveV2" in ops for ops in found.values()] == [False, False, True]
    tf.saved_model.save(module, tmp_path / "none", signatures={})
    found = graphs_of(tmp_path / "none")
    assert len(found) == 3
    assert ["SaveV2" in ops for ops in found.values()] == [False, False, True]


def test_a_signature_of_tensorflow_1_is_the_graph_that_it_needs(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None, 4), name="x")
        y = tf.nn.relu(x @ v1.get_variable("w", (4, 2)), name="y")
        v1.train.AdamOptimizer().minimize(tf.reduce_sum(y))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "model"), {"x": x}, {"y": y})
    graph = lt.graph(tmp_path / "model")
    assert {box.op for box in graph.nodes()} == {"Placeholder", "VarHandleOp", "ReadVariableOp", "MatMul", "Relu"}
    graph.save(tmp_path / "out.pb")
    assert imported(load(tmp_path / "out.pb")).get_operation_by_name("y").type == "Relu"
