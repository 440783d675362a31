"""Programs as people write them: planned, they compute what they compute plainly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt
from tests.children import last_json, run_python

L = keras.layers
X = tf.random.stateless_normal((2048, 64), (1, 2))

Program = tuple[Callable[..., Any], list[tf.Variable]]
"""A step of X, and all that it changes."""


def make_weights(count: int = 6) -> list[tf.Variable]:
    return [tf.Variable(tf.random.stateless_normal((64, 64), (3, index)) * 0.1) for index in range(count)]


def chain(value: tf.Tensor, weights: list[tf.Variable]) -> tf.Tensor:
    for weight in weights:
        value = tf.sin(value @ weight)
    return value


def descend(weights: list[tf.Variable], gradients: list[Any]) -> None:
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.assign_sub(0.1 * tf.convert_to_tensor(gradient))


def two_tapes() -> Program:
    """A generator and what judges it, each with a tape and weights of its own."""
    makes, judges = make_weights(4), make_weights(4)

    def step(x):
        with tf.GradientTape() as first, tf.GradientTape() as second:
            false, true = chain(chain(x, makes), judges), chain(x, judges)
            made, judged = tf.reduce_mean(false**2), tf.reduce_mean(true**2) - tf.reduce_mean(false)
        descend(makes, first.gradient(made, makes))
        descend(judges, second.gradient(judged, judges))
        return made, judged

    return step, [*makes, *judges]


def second_order() -> Program:
    """A penalty on a gradient, and a tape that is asked twice."""
    weights = make_weights(4)

    def step(x):
        with tf.GradientTape(persistent=True) as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                found = chain(x, weights)
            slope = inner.gradient(found, x)
            loss, penalty = tf.reduce_mean(found**2), tf.reduce_mean((tf.norm(slope + 1e-6, axis=1) - 1.0) ** 2)
        both = zip(outer.gradient(loss, weights), outer.gradient(penalty, weights), strict=True)
        clipped, norm = tf.clip_by_global_norm([one + 0.1 * other for one, other in both], 0.05)
        descend(weights, clipped)
        return loss, penalty, norm

    return step, weights


def custom_gradients() -> Program:
    """A gradient of one's own, and a call that XLA compiles by itself, inside nested functions."""
    weights = make_weights()

    @tf.custom_gradient
    def straight_through(x):
        return tf.round(x * 8.0) / 8.0, lambda upstream: upstream * tf.cos(x)

    @tf.function(jit_compile=True)
    def compiled(x):
        return tf.sin(x) * tf.cos(x)

    @tf.function
    def forward(x):
        return compiled(chain(straight_through(chain(x, weights[:3])), weights[3:]))

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((forward(x) - 1.0) ** 2)
        descend(weights, tape.gradient(loss, weights))
        return loss

    return step, weights


def branches_and_sums() -> Program:
    """Gradients are summed, applied in every other step only, and the weights are averaged."""
    weights, count = make_weights(), tf.Variable(0)
    sums, averages = ([tf.Variable(tf.zeros((64, 64))) for _ in weights] for _ in range(2))

    def apply() -> tf.Tensor:
        descend(weights, sums)
        for total, average, weight in zip(sums, averages, weights, strict=True):
            total.assign(tf.zeros_like(total))
            average.assign(0.9 * average + 0.1 * weight)
        return tf.constant(True)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(chain(x, weights) ** 2)
        for total, gradient in zip(sums, tape.gradient(loss, weights), strict=True):
            total.assign_add(gradient)
        count.assign_add(1)
        return loss, tf.cond(count % 2 == 0, apply, lambda: tf.constant(False))

    return step, [*weights, *sums, *averages, count]


def state_in_the_middle() -> Program:
    """Random numbers with a state, counters, assertions and Python in between run as often as before."""
    weights, count = make_weights(), tf.Variable(0)
    generator = tf.random.Generator.from_seed(3)
    seen = tf.Variable(0.0)

    def look(value):
        seen.assign_add(1.0)
        return value

    def step(x):
        with tf.GradientTape() as tape:
            value = x
            for weight in weights:
                value = tf.sin(value @ weight) + 0.01 * generator.normal(x.shape)
                tf.debugging.assert_all_finite(value, "not finite")
                count.assign_add(1)
            value = tf.ensure_shape(tf.py_function(look, [value], tf.float32), x.shape)
            loss = tf.reduce_mean(value**2)
        descend(weights, tape.gradient(loss, weights))
        return loss

    return step, [*weights, count, generator.state, seen]


def rows_of_a_table() -> Program:
    """The gradient of a table is that of the rows which were read; Adam keeps moments of it."""
    table, weights = tf.Variable(tf.random.stateless_normal((500, 64), (5, 6))), make_weights(5)
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build([table, *weights])

    def step(x):
        rows = tf.cast(tf.abs(x[:, 0]) * 100.0, tf.int32)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(chain(tf.nn.embedding_lookup(table, rows), weights) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, [table, *weights]), [table, *weights], strict=True))
        return loss

    return step, [table, *weights, *(each.value for each in optimizer.variables)]


PROGRAMS = (two_tapes, second_order, custom_gradients, branches_and_sums, state_in_the_middle, rows_of_a_table)


def share_of(tide: lt.Tide, share: float) -> int:
    held = int(tide.curve.bytes_in_use[0])
    return held + int((tide.safe_bytes - held) * share)


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_a_planned_program_computes_the_same(make):
    step, variables = make()
    plain = tf.function(step)
    expected = [tf.nest.flatten(plain(X)) for _ in range(2)]
    again, others = make()
    # Below what order alone reaches, so that something has to be computed again on any machine.
    planned = lt.function(again, budget=share_of(lt.plan(again, tf.TensorSpec(X.shape), only="order").after, 0.9))
    for results in expected:
        for one, two in zip(results, tf.nest.flatten(planned(X)), strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-5)
    for one, two in zip(variables, others, strict=True):
        np.testing.assert_allclose(two.numpy(), one.numpy(), rtol=1e-5, atol=1e-6)
    (plan,) = planned.plans
    assert plan.peak_bytes <= plan.budget_bytes
    assert plan.count("recompute")


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("mirrored") / "out.json"
    child = Path(__file__).with_name("mirrored_child.py")
    run_python(child, out)
    return json.loads(out.read_text())


@pytest.mark.parametrize("way", ["steps", "fit"])
def test_a_step_on_two_devices_is_planned_on_each(mirrored, way):
    """The budget is what each of them has."""
    found = mirrored[way]
    assert found["peak_bytes"] <= found["budget_bytes"]
    assert found["pieces"] == 1
    assert all(found["recomputed"])
    assert "the step runs on 2 devices; this is the one that needs most" in found["notes"]
    np.testing.assert_allclose(found["losses"][1], found["losses"][0], rtol=1e-6)
    assert found["apart"] <= 1e-5


CHILD = Path(__file__).with_name("held_child.py")


def test_an_optimizer_that_is_built_by_its_first_step_trains_in_exactly_the_budget():
    """Its slots share their buffers until something separates them: the first step would, in the arena."""
    seen = last_json(run_python(CHILD, 62, 0, limit_mib=62))
    assert (seen["is planned"], seen["steps"], seen["shared"]) == (True, 6, 0)
    assert seen["plan"] <= 62 << 20


def test_the_budget_holds_what_else_is_in_the_process():
    """Without the 64 MiB that the process holds, the plain step would seem to fit."""
    seen = last_json(run_python(CHILD, 134, 64, limit_mib=134))
    assert "no plan" in seen or (seen["is planned"] and seen["outside"] >= 64 << 20 and seen["steps"] == 6)
