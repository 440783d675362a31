"""Planned steps: what they compute, what they take, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt
from lowtide.planning.plan import NoPlanError
from lowtide.planning.rewrite.rewrite import Rewrite
from lowtide.tf.plan.apply_rewrite import Redefined, apply, planned_callable
from lowtide.tf.plan.flatten import flatten
from lowtide.units import format_bytes, parse_bytes

L = keras.layers
ROWS = 1024


def blocks() -> keras.Model:
    """BatchNormalization, Dropout and what has an activation of its own; no kernel here borrows memory."""
    keras.utils.set_random_seed(1)
    layers = [keras.Input((64,))]
    for _ in range(4):
        layers += [L.Dense(256, use_bias=False), L.BatchNormalization(), L.ReLU(), L.Dropout(0.2)]
        layers += [L.Dense(256, activation="relu")]
    model = keras.Sequential([*layers, L.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"])
    return model


def convolutions() -> keras.Model:
    """Padded, strided and plain convolutions, whose kernels differ from machine to machine."""
    keras.utils.set_random_seed(1)
    layers = [keras.Input((32, 32, 3)), L.ZeroPadding2D(), L.Conv2D(16, 3, strides=2), L.BatchNormalization(), L.ReLU()]
    for _ in range(4):
        layers += [L.Conv2D(16, 3, padding="same", activation="relu"), L.Dropout(0.2)]
    model = keras.Sequential([*layers, L.GlobalAveragePooling2D(), L.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def batch(rows: int = ROWS, shape: tuple[int, ...] = (64,)) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(0)
    return chance.random((rows, *shape)).astype("float32"), chance.integers(0, 10, rows)


def share_of(tide: lt.Tide, share: float) -> int:
    """A budget: what is there before the step, and this share of what comes on top."""
    held = int(tide.curve.bytes_in_use[0])
    return held + int((tide.safe_bytes - held) * share)


def state(model: keras.Model) -> list[np.ndarray]:
    """Everything that training changes: weights, moving averages, seeds and the optimizer's variables."""
    return [each.numpy() for each in (*model.variables, *model.optimizer.variables)]


def train(model: keras.Model, steps: int = 3, rows: int = ROWS) -> list[float]:
    data = batch(rows, model.input_shape[1:])
    return [float(model.train_on_batch(*data, return_dict=True)["loss"]) for _ in range(steps)]


@pytest.fixture(scope="module")
def plain() -> tuple[lt.Tide, list[float], list[np.ndarray]]:
    """The step as it is: its tide, its losses and what it leaves."""
    model = blocks()
    tide = lt.predict(model, batch_size=ROWS)
    return tide, train(model), state(model)


@pytest.fixture(scope="module")
def planned(plain) -> tuple[lt.Plan, list[float], list[np.ndarray]]:
    model = blocks()
    fitted = lt.fit_in(model, budget=share_of(plain[0], 0.6))
    losses = train(model)
    assert fitted.plan is not None
    return fitted.plan, losses, state(model)


def test_a_planned_step_takes_no_more_than_its_budget(plain, planned):
    plan = planned[0]
    assert plan.peak_bytes <= plan.budget_bytes < plain[0].safe_bytes
    assert plan.count("recompute") > 0
    assert plan.after.peak_bytes < plan.before.peak_bytes
    assert 0 < plan.slowdown < 0.5


def test_a_planned_step_computes_the_same(plain, planned):
    _, losses, after = plain
    np.testing.assert_allclose(planned[1], losses, rtol=1e-6)
    for expected, found in zip(after, planned[2], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_seeds_and_counters_advance_as_often_as_before(plain, planned):
    """A mask that is drawn again is the same mask, and a moving average moves once for each step."""
    whole = [(one, other) for one, other in zip(plain[2], planned[2], strict=True) if one.dtype.kind in "iu"]
    assert len(whole) >= 5
    for expected, found in whole:
        np.testing.assert_array_equal(found, expected)


def test_nothing_that_has_state_is_copied(planned):
    copied = {action.op for action in planned[0].actions if action.kind == "recompute"}
    assert copied
    assert not {op for op in copied if "Variable" in op or op.startswith(("Assign", "Resource"))}


def test_actions_name_their_layers(planned):
    recomputed = [action for action in planned[0].actions if action.kind == "recompute"]
    assert all(action.layer for action in recomputed)
    assert all(action.saves_bytes > 0 for action in recomputed)


def test_a_lower_budget_costs_more_along_the_frontier(planned):
    frontier = planned[0].frontier
    assert len(frontier) >= 3
    assert [point.peak_bytes for point in frontier] == sorted((point.peak_bytes for point in frontier), reverse=True)
    assert [point.slowdown for point in frontier] == sorted(point.slowdown for point in frontier)


def chain() -> keras.Model:
    """Convolutions only, compiled by XLA."""
    keras.utils.set_random_seed(1)
    layers = [L.Conv2D(16, 3, padding="same", activation="relu") for _ in range(10)]
    model = keras.Sequential([keras.Input((32, 32, 3)), *layers, L.GlobalAveragePooling2D(), L.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-2), loss, jit_compile=True)
    return model


def plan_alike(make: Callable[[], keras.Model], rows: int, share: float) -> lt.Plan:
    """Train a model plainly and another of its kind within a budget: both end the same."""
    model = make()
    tide = lt.predict(model, batch_size=rows)
    losses, after = train(model, 2, rows), state(model)
    again = make()
    fitted = lt.fit_in(again, budget=share_of(tide, share))
    np.testing.assert_allclose(train(again, 2, rows), losses, rtol=1e-5)
    for expected, found in zip(after, state(again), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert fitted.plan is not None
    assert fitted.plan.peak_bytes <= fitted.plan.budget_bytes
    return fitted.plan


def test_a_compiled_step_is_planned_and_computes_the_same():
    plan = plan_alike(chain, 32, 0.6)
    assert plan.after.peak_bytes < plan.before.peak_bytes


def compiled_blocks() -> keras.Model:
    """What XLA fuses: normalizations, activations and masks, of which only some results are ever written."""
    keras.utils.set_random_seed(1)
    layers = [keras.Input((64,))]
    for _ in range(6):
        layers += [L.Dense(256, use_bias=False), L.BatchNormalization(), L.ReLU(), L.Dropout(0.2)]
    model = keras.Sequential([*layers, L.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-2), loss, jit_compile=True)
    return model


def test_fused_values_of_a_compiled_step_take_no_memory_in_a_plan():
    plan = plan_alike(compiled_blocks, 2048, 0.6)
    assert plan.after.peak_bytes < plan.before.peak_bytes
    assert plan.pieces == 1
    # The input of a product and the numbers of a mask are written, and made again; sums and squares of a batch are not.
    assert plan.count("recompute") >= 2


def test_convolutions_with_whatever_kernels_there_are():
    plan_alike(convolutions, 64, 0.85)


def test_fit_evaluate_predict_and_another_batch_size(tmp_path, plain):
    model = blocks()
    fitted = lt.fit_in(model, budget=share_of(plain[0], 0.6))
    x, y = batch(ROWS * 2 + 4)
    seen = []
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda step, logs: seen.append(logs["loss"]))
    model.fit(x, y, batch_size=ROWS, epochs=2, verbose=0, callbacks=[callback], validation_data=batch(), shuffle=False)
    assert len(seen) == 6
    assert np.isfinite(seen).all()
    # The last batch of an epoch is smaller: it has a plan of its own.
    assert len(fitted.plans) == 2
    assert model.predict(x, verbose=0).shape == (len(x), 10)
    assert np.isfinite(model.evaluate(x, y, verbose=0)).all()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(x[:4], verbose=0), model.predict(x[:4], verbose=0), rtol=1e-5, atol=1e-6)
    fitted.undo()
    assert np.isfinite(train(model, 1))


def test_a_step_that_fits_is_unchanged(plain):
    plan = lt.plan(blocks(), batch_size=ROWS, budget=plain[0].safe_bytes * 2)
    assert plan.changes_nothing
    assert not plan.rewrite.copies
    assert plan.summary().endswith("as it is")


def test_budgets_below_the_weights_are_refused_with_one_answer():
    model = blocks()
    cures = set()
    for budget in ("1KiB", "100KiB"):
        with pytest.raises(NoPlanError, match="below what is there before the step") as caught:
            lt.plan(model, batch_size=ROWS, budget=budget)
        cures.add(caught.value.cure)
        # Half precision changes no variable, and micro-batches no weight.
        assert caught.value.allowable == ()
        assert caught.value.smallest_bytes is None
    weights = sum(4 * np.prod(each.shape) for each in model.variables + model.optimizer.variables)
    assert caught.value.held.variables_bytes == pytest.approx(weights, abs=64)
    (cure,) = cures
    assert cure.startswith("weights and optimizer state alone take")


def test_the_smallest_plan_of_a_refusal_is_a_plan_of_that_budget():
    model = blocks()
    tide = lt.predict(model, batch_size=ROWS)
    with pytest.raises(NoPlanError, match="smallest plan that was found") as caught:
        lt.plan(model, batch_size=ROWS, budget=share_of(tide, 0.05), only="recompute")
    smallest = caught.value.smallest_bytes
    assert smallest is not None
    assert lt.plan(model, batch_size=ROWS, budget=smallest, only="recompute").peak_bytes <= smallest
    assert caught.value.held.total_bytes < smallest


def normalized_convolutions():
    """A model whose bound within a limit of 22.4 MiB is 22.7 MiB, and 22.4 MiB where the limit is lower."""
    stages = []
    for _ in range(4):
        convolution = keras.layers.Conv2D(16, 3, padding="same")
        stages += [convolution, keras.layers.BatchNormalization(), keras.layers.ReLU()]
    head = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input((64, 64, 3)), *stages, *head])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, tf.TensorSpec((16, 64, 64, 3)), tf.TensorSpec((16,), tf.int32)


def residual_products():
    """A step for which the search finds a lower schedule if it is given a lower target than the budget."""
    weights = [tf.Variable(tf.zeros((96, 96))) for _ in range(6)]

    def step(batch):
        with tf.GradientTape() as tape:
            hidden = batch["x"]
            for weight in weights:
                hidden = tf.nn.silu(hidden @ weight) + hidden
            loss = tf.reduce_mean((hidden - batch["y"]) ** 2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step, {"x": tf.TensorSpec((8192, 96)), "y": tf.TensorSpec((8192, 96))}


@pytest.mark.parametrize(("build", "budget"), [(normalized_convolutions, "8MiB"), (residual_products, "14MiB")])
def test_the_smallest_plan_is_found_again_with_the_budget_that_was_printed(build, budget):
    target, *specs = build()
    with pytest.raises(NoPlanError, match="smallest plan that was found") as caught:
        lt.plan(target, *specs, budget=budget)
    smallest = caught.value.smallest_bytes
    printed = format_bytes(smallest)
    assert f"takes {printed}, " in str(caught.value)
    assert parse_bytes(printed) == smallest
    assert lt.plan(target, *specs, budget=printed).peak_bytes <= smallest


def make_step(wrap, optimizer=None):
    """A step of one's own, with a structure of results and an argument that has a default."""
    keras.utils.set_random_seed(2)
    dense = [L.Dense(256, activation="relu") for _ in range(8)]
    model = keras.Sequential([keras.Input((64,)), *dense, L.Dense(4)])
    optimizer = optimizer or keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)

    @wrap
    def step(x, y, scale=1.0):
        with tf.GradientTape() as tape:
            found = model(x, training=True)
            loss = tf.reduce_mean((found - y) ** 2) * scale
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return {"loss": loss, "some": (found[:2], [y[0]])}

    return model, step


X, Y = (tf.random.stateless_normal((512, size), (1, size)) for size in (64, 4))
SPECS = (tf.TensorSpec(X.shape), tf.TensorSpec(Y.shape))


@pytest.fixture(scope="module")
def step_budget() -> int:
    """Below what order alone reaches, so that something has to be computed again on any machine."""
    return share_of(lt.plan(make_step(tf.function)[1], *SPECS, only="order").after, 0.9)


def ops_of(planned):
    return [node.op for node in planned.redefined.function_def.node_def]


def test_an_update_with_momentum_becomes_one_kernel(step_budget):
    model, step = make_step(tf.function)
    made = lt.plan(step, *SPECS, budget=step_budget)
    ops = ops_of(made.apply())
    assert ops.count("ResourceApplyKerasMomentum") == len(model.trainable_variables)
    assert "AssignVariableOp" not in ops


def test_what_an_optimizer_keeps_stays_in_place():
    model, step = make_step(tf.function, keras.optimizers.RMSprop(0.01))
    made = lt.plan(step, *SPECS, only="order")
    # Each weight has a slot that is assigned anew, and no weight is read for its update only. Steps are counted.
    kept = len(model.trainable_variables) + 1
    assert len(made.rewrite.in_place) == kept
    ops = ops_of(made.apply())
    # What has rows is written row by row.
    rows = sum(weight.shape.num_elements() >= 256 * weight.shape[0] for weight in model.trainable_variables)
    assert rows
    assert ops.count("ResourceScatterUpdate") == rows
    assert ops.count("ResourceStridedSliceAssign") == kept - rows
    assert ops.count("AssignSubVariableOp") >= len(model.trainable_variables)


@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {}])
def test_updates_in_place_compute_the_same_bits(options):
    (plain, step), (other, function) = (
        make_step(tf.function, keras.optimizers.SGD(0.01, weight_decay=1e-3, **options)) for _ in range(2)
    )
    planned = lt.plan(function, *SPECS, only="order").apply()
    for _ in range(3):
        step(X, Y)
        planned(X, Y)
    for one, two in zip(plain.weights, other.weights, strict=True):
        assert one.numpy().tobytes() == two.numpy().tobytes()


def test_a_function_of_the_user_is_planned(step_budget):
    model, step = make_step(tf.function)
    other, planned_step = make_step(lt.function(budget=step_budget))
    for _ in range(2):
        expected, found = step(X, Y), planned_step(X, Y)
        tf.nest.assert_same_structure(expected, found)
        tf.nest.map_structure(lambda one, two: np.testing.assert_allclose(two, one, rtol=1e-6), expected, found)
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-8)
    assert planned_step.plan is not None
    assert planned_step.plan.count("recompute")
    planned_step(X[:32], y=Y[:32], scale=2.0)
    assert [plan.changes_nothing for plan in planned_step.plans] == [False, True]
    # Of several shapes, the plan is that of the largest step, not of the last.
    assert planned_step.plan is planned_step.plans[0]


def test_a_plan_is_saved_and_used_again_for_the_same_graph_only(tmp_path, step_budget):
    keras.backend.clear_session()
    _, step = make_step(tf.function)
    made = lt.plan(step, *SPECS, budget=step_budget)
    made.save(tmp_path / "step.plan")
    # Another process would call the layers the same.
    keras.backend.clear_session()
    model, step = make_step(tf.function)
    stored = lt.load_plan(tmp_path / "step.plan", step, *SPECS)
    assert stored.peak_bytes == made.peak_bytes
    assert stored.summary() == made.summary()
    before = model.get_weights()
    assert np.isfinite(stored.apply()(X, Y)["loss"])
    assert any((one != two).any() for one, two in zip(before, model.get_weights(), strict=True))
    smaller = tuple(tf.TensorSpec((256, *spec.shape[1:])) for spec in SPECS)
    with pytest.raises(lt.LowtideError, match="made for another graph"):
        lt.load_plan(tmp_path / "step.plan", step, *smaller)
    with pytest.raises(lt.LowtideError, match="does not know its step"):
        lt.load_plan(tmp_path / "step.plan").apply()


def test_a_step_that_returns_nothing():
    weights = [tf.Variable(tf.random.stateless_normal((128, 128), (3, index)) * 0.05) for index in range(6)]

    def descend(x):
        with tf.GradientTape() as tape:
            value = x
            for weight in weights:
                value = tf.sin(value @ weight)
            loss = tf.reduce_sum(value**2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.01 * gradient)

    x = tf.random.stateless_normal((2048, 128), (3, 4))
    first = [weight.numpy() for weight in weights]
    tide = lt.predict(descend, tf.TensorSpec(x.shape))
    step = lt.function(descend, budget=share_of(tide, 0.75))
    assert step(x) is None
    assert step.plan is not None
    assert not step.plan.changes_nothing
    after = [weight.numpy() for weight in weights]
    for weight, value in zip(weights, first, strict=True):
        weight.assign(value)
    tf.function(descend)(x)
    for weight, value in zip(weights, after, strict=True):
        np.testing.assert_allclose(value, weight.numpy(), rtol=1e-5, atol=1e-7)


def test_a_loop_stays_a_single_node():
    """A recurrent layer is a loop in the graph; what is around it can be planned all the same."""
    keras.utils.set_random_seed(4)
    layers = [L.Conv1D(64, 5, padding="same", activation="relu") for _ in range(4)]
    model = keras.Sequential([keras.Input((64, 16)), *layers, L.LSTM(8), L.Dense(2)])
    model.compile("sgd", "mse")
    x, y = np.random.default_rng(1).random((32, 64, 16), np.float32), np.zeros((32, 2), np.float32)
    tide = lt.predict(model, batch_size=32)
    first = model.get_weights()
    expected = model.train_on_batch(x, y)
    model.set_weights(first)
    fitted = lt.fit_in(model, budget=share_of(tide, 0.8))
    np.testing.assert_allclose(model.train_on_batch(x, y), expected, rtol=1e-5)
    assert fitted.plan is not None
    assert fitted.plan.peak_bytes <= fitted.plan.budget_bytes


def test_calls_are_replaced_by_what_they_call():
    """State is read and written in the same order as where the calls were, also through waits alone."""
    counter = tf.Variable(1.0)

    @tf.function
    def double() -> tf.Tensor:
        counter.assign(counter * 2.0)
        return counter.read_value()

    @tf.function
    def outer(x):
        first = double()
        counter.assign_add(x)
        return first, double(), x + 1.0

    concrete = outer.get_concrete_function(tf.TensorSpec(()))
    flat = flatten(concrete)
    assert not any("PartitionedCall" == node.op for node in flat.graph_def.node)
    step = planned_callable(Redefined(concrete, apply(flat, Rewrite())), compiled=False, total_bytes=0)
    assert [float(each) for each in step(tf.constant(5.0))] == [2.0, 14.0, 6.0]
    assert float(counter) == 14.0


def test_costs_are_the_times_of_a_recorded_step(plain):
    """The model is built anew, so that its layers have other numbers than those of the child that was measured."""
    recorded = lt.measure(blocks(), batch_size=ROWS)
    assert recorded.times is not None
    model, budget = blocks(), share_of(plain[0], 0.6)
    plan = lt.plan(model, batch_size=ROWS, budget=budget, recorded=recorded)
    assert plan.notes == (f"times measured in a recording of {recorded.target}",)
    assert plan.peak_bytes <= budget
    again = [action for action in plan.actions if action.kind == "recompute"]
    # Times are known to the nanosecond, so that two are seldom the same.
    assert {np.float32(action.costs_us) for action in again} & set(recorded.times.duration_us)

    # `fit` is planned without the function that draws a batch around it, and a smaller batch as well.
    fitted = lt.fit_in(model, budget=share_of(lt.predict(model, batch_size=ROWS // 2), 0.75), recorded=recorded)
    train(model, steps=1, rows=ROWS // 2)
    assert f"with batch {ROWS}, taken in proportion for batch {ROWS // 2}" in fitted.plan.notes[0]
    assert fitted.plan.recomputed

    other = convolutions()
    budget = share_of(lt.predict(other, batch_size=64), 0.6)
    with pytest.raises(lt.LowtideError, match=f"of another program.*{recorded.target}.*{other.name}"):
        lt.plan(other, batch_size=64, budget=budget, recorded=recorded)


def test_a_split_batch_where_recomputing_is_not_enough():
    """Without BatchNormalization a batch may be split; only rounding changes."""
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((64,)), L.Dense(2048, activation="relu"), L.Dense(8)])
    model.compile("sgd", "mse")
    x, y = np.random.default_rng(1).random((4096, 64), np.float32), np.zeros((4096, 8), np.float32)
    first = model.get_weights()
    tide = lt.predict(model, batch_size=len(x))
    expected = model.train_on_batch(x, y)
    after = model.get_weights()
    model.set_weights(first)
    fitted = lt.fit_in(model, budget=share_of(tide, 0.4))
    np.testing.assert_allclose(model.train_on_batch(x, y), expected, rtol=1e-4)
    for one, two in zip(after, model.get_weights(), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-3, atol=1e-6)
    assert fitted.plan is not None
    assert fitted.plan.pieces > 1
    assert any("micro-batches of each batch" in note for note in fitted.plan.notes)
    # A promise takes of the room that the budget leaves, since steps are not alike.
    roomy = min(fitted.plan.after.peak_bytes * 1.2, fitted.plan.budget_bytes)
    assert roomy <= fitted.plan.peak_bytes <= fitted.plan.budget_bytes
    # What was split costs the overhead of more ops, and says so.
    assert fitted.plan.slowdown > 0
    with pytest.raises(NoPlanError):
        lt.plan(model, batch_size=len(x), budget=share_of(tide, 0.4), only="recompute")
    with pytest.raises(lt.LowtideError, match="nothing of this name can be allowed"):
        lt.fit_in(model, budget="1GiB", allow=("int8",))
    with pytest.raises(lt.LowtideError, match="cannot be that alone"):
        lt.fit_in(model, budget="1GiB", only="pieces")


def test_batch_normalization_is_split_only_where_it_is_allowed():
    def normalized() -> keras.Model:
        keras.utils.set_random_seed(6)
        layers = [L.Dense(512, use_bias=False), L.BatchNormalization(), L.ReLU(), L.Dense(4)]
        model = keras.Sequential([keras.Input((32,)), *layers])
        model.compile("sgd", "mse")
        return model

    budget = share_of(lt.predict(normalized(), batch_size=4096), 0.4)
    with pytest.raises(NoPlanError, match="allow microbatch") as caught:
        lt.plan(normalized(), batch_size=4096, budget=budget)
    assert caught.value.smallest_bytes > budget
    made = lt.plan(normalized(), batch_size=4096, budget=budget, allow=("microbatch",))
    assert made.pieces > 1
    assert made.changes_results
    assert made.peak_bytes <= budget
    assert any("BatchNormalization" in note for note in made.notes)


def test_a_model_that_runs_eagerly_is_refused():
    model = blocks()
    model.compile("sgd", "mse", run_eagerly=True)
    with pytest.raises(lt.LowtideError, match="runs eagerly"):
        lt.fit_in(model, budget="1GiB")
    with pytest.raises(lt.LowtideError, match="only a Keras model"):
        lt.fit_in(print, budget="1GiB")


def test_the_best_order_alone():
    _, step = make_step(tf.function)
    plain_tide = lt.predict(step, *SPECS)
    made = lt.plan(step, *SPECS, only="order")
    assert not made.rewrite.copies
    assert made.count("order")
    assert made.peak_bytes == made.budget_bytes <= plain_tide.safe_bytes
    with pytest.raises(lt.LowtideError, match="needs a budget"):
        lt.plan(step, *SPECS)
