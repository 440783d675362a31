"""The phases of traced steps agree with what created each node: the tape, the optimizer, or the model."""

import keras
import pytest
import tensorflow as tf

import lowtide as lt
from lowtide.sources.graphs.find_graphs import find_graphs

PHASES: dict[str, str] = {}
"""The phase in which each node was created, for nodes that a tape or an optimizer creates."""


def recorded(phase, method):
    """A method that records the nodes which it adds to the default graph; nodes of inner calls keep their phase."""

    def call(*arguments, **options):
        graph = tf.compat.v1.get_default_graph()
        before = {operation.name for operation in graph.get_operations()}
        result = method(*arguments, **options)
        for operation in graph.get_operations():
            if operation.name not in before:
                PHASES.setdefault(operation.name, phase)
        return result

    return call


@pytest.fixture(autouse=True)
def recording(monkeypatch, tmp_path):
    PHASES.clear()
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tf.GradientTape, "gradient", recorded("backward", tf.GradientTape.gradient))
    monkeypatch.setattr(keras.optimizers.Optimizer, "apply", recorded("optimizer", keras.optimizers.Optimizer.apply))


def step_of(model, x, y, optimizer):
    optimizer.build(model.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        optimizer.apply(tape.gradient(value, model.trainable_variables))
        return value

    return step.get_concrete_function(x, y).graph


def swish():
    layers = keras.layers
    model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3, activation="swish"),
        layers.BatchNormalization(), layers.Flatten(), layers.Dropout(0.5), layers.Dense(4, activation="swish"),
    ])  # fmt: skip
    optimizer = keras.optimizers.AdamW(use_ema=True, clipnorm=1.0)
    return step_of(model, tf.TensorSpec((2, 8, 8, 3)), tf.TensorSpec((2,), tf.int32), optimizer)


def transformer():
    tokens = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(10, 8)(tokens)
    x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(2, 4)(x, x))
    model = keras.Model(tokens, keras.layers.Dense(10)(keras.layers.Dense(8, activation="gelu")(x)))
    rate = keras.optimizers.schedules.CosineDecay(0.1, 10)
    ids = tf.TensorSpec((2, 6), tf.int32)
    return step_of(model, ids, ids, keras.optimizers.Adam(rate))


def recurrent():
    layers = keras.layers
    model = keras.Sequential([keras.Input((6,)), layers.Embedding(10, 4), layers.LSTM(4), layers.Dense(2)])
    return step_of(
        model, tf.TensorSpec((2, 6), tf.int32), tf.TensorSpec((2,), tf.int32), keras.optimizers.Adam(weight_decay=0.1)
    )


def gan():
    generator = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="silu")])
    critic = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, activation="silu"), keras.layers.Dense(1)])
    optimizers = keras.optimizers.Adam(), keras.optimizers.Adam()
    for optimizer, model in zip(optimizers, (critic, generator), strict=True):
        optimizer.build(model.trainable_variables)

    @tf.function
    def step(real, noise):
        with tf.GradientTape() as tape:
            first = tf.reduce_mean(critic(generator(noise)) - critic(real))
        optimizers[0].apply(tape.gradient(first, critic.trainable_variables))
        with tf.GradientTape() as tape:
            second = -tf.reduce_mean(critic(generator(noise)))
        optimizers[1].apply(tape.gradient(second, generator.trainable_variables))

    return step.get_concrete_function(tf.TensorSpec((2, 8)), tf.TensorSpec((2, 4))).graph


def gradient_penalty():
    """Several steps of a critic, of which only the last loss is returned; the optimizer does not read its counter."""
    critic = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, activation="silu"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=3)
    optimizer.build(critic.trainable_variables)

    @tf.function
    def step(real, fake):
        loss = 0.0
        for _ in range(2):
            with tf.GradientTape() as tape:
                with tf.GradientTape() as inner:
                    inner.watch(fake)
                    score = critic(fake)
                penalty = tf.reduce_mean((tf.norm(inner.gradient(score, fake), axis=1) - 1) ** 2)
                loss = tf.reduce_mean(critic(fake) - critic(real)) + 10.0 * penalty
            optimizer.apply(tape.gradient(loss, critic.trainable_variables))
        return loss

    return step.get_concrete_function(tf.TensorSpec((2, 8)), tf.TensorSpec((2, 8))).graph


@pytest.mark.parametrize("program", [swish, transformer, recurrent, gan, gradient_penalty])
def test_every_node_that_is_read_has_the_phase_in_which_it_was_created(program, tmp_path):
    graph = program()
    path = tmp_path / "step.pb"
    path.write_bytes(graph.as_graph_def(add_shapes=True).SerializeToString())
    found = {box.name: box.phase for box in lt.graph(path).nodes() if "::" not in box.name}
    # Nodes that nothing reads, such as the zeros of gradients that are not needed, belong to no phase.
    read = [
        operation.name
        for operation in graph.get_operations()
        if any(output.consumers() for output in operation.outputs) or "Assign" in operation.type
    ]
    expected = {name: PHASES.get(name, "forward") for name in read}
    # Handles are arguments of the function, created by the first node that reads them.
    handles = {operation.name for operation in graph.get_operations() if operation.type == "Placeholder"}
    differing = {name: (found[name], phase) for name, phase in expected.items() if found[name] != phase}
    assert {name: phases for name, phases in differing.items() if name not in handles} == {}
    assert set(expected.values()) == {"forward", "backward", "optimizer"}


def test_the_optimized_graph_has_the_phases_of_the_traced_one(tmp_path):
    """TensorFlow merges equal constants and shapes, of which the forward pass then reads those of gradients."""
    layers = keras.layers
    model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3, activation="relu"),
        layers.BatchNormalization(), layers.Conv2D(4, 3, activation="relu"), layers.GlobalAveragePooling2D(),
        layers.Dropout(0.2), layers.Dense(4),
    ])  # fmt: skip
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.optimizer.build(model.trainable_variables)
    step = tf.function(lambda x, y: model.train_step((x, y)))
    tf.summary.trace_on(graph=True)
    step(tf.zeros((2, 8, 8, 3)), tf.zeros(2, tf.int32))
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        tf.summary.trace_export("step", 0)
    (events,) = tmp_path.iterdir()
    spans = find_graphs(events, tmp_path).spans
    largest = max((span.end - span.start, span.label) for span in spans if "after optimization" in span.label)
    found = [box for box in lt.graph(events, largest[1]).nodes() if box.op != "Const"]
    names = {"gradient_tape": "backward", "adam": "optimizer", "sequential": "forward", "compile_loss": "forward"}
    expected = {box.name: next((names[part] for part in names if part in box.name), None) for box in found}
    differing = {box.name: box.phase for box in found if expected[box.name] not in (None, box.phase)}
    sizes = {box.name for box in found if box.op in ("Shape", "Size")}
    assert {name: phase for name, phase in differing.items() if name not in sizes} == {}
    assert {box.phase for box in found} == set(names.values())
