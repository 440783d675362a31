"""Programs that leak are found out, with the line; programs that do not are left in peace. Each runs as it would."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import pytest
import tensorflow as tf

import lowtide
from lowtide.errors import LowtideError
from tests.children import last_json, run_python

PROGRAMS = Path(__file__).parent / "programs"

# The kind of the leak, a part of who causes it, and the line of the program that does.
LEAKS = {
    "leak_arrays": ("kept arrays", "global `predictions`", "predictions.append("),
    "leak_eager_outputs": ("kept tensors", "local `outputs` of infer", "outputs.append("),
    "leak_growing_graph": ("growing graph", "the loop adds ops", "session.run(tf1.assign("),
    "leak_kept_losses": ("kept tensors", "attribute `history['loss']` of Trainer", 'self.history["loss"].append('),
    "leak_models": ("models in a loop", "registry of gradients", "model.fit("),
    "leak_new_function": ("retracing", "a new tf.function", "return step(x)"),
    "leak_open_sessions": ("open sessions", "not closed", "sessions[step] = tf1.Session()"),
    "leak_predict": ("predict in a loop", "`model.predict`", "model.predict("),
    "leak_python_scalar": (
        "retracing",
        "argument `step`: a new Python value (0, 1, 2",
        "train_step(tf.ones((8, 64)), step)",
    ),
    "leak_shapes": ("retracing", "argument `tokens`: a new shape (float32(4, 10)", "encode(tf.ones("),
    "leak_variables": ("kept tensors", "global `snapshots`", "snapshots.append("),
    "leak_xla_fit": ("XLA shapes", "new shapes", None),
    "leak_xla_shapes": ("XLA shapes", "argument `x`: a new shape ([1], [2], [3]", "score(tf.ones("),
}
CLEAN = sorted(path.stem for path in PROGRAMS.glob("clean_*.py"))


def run(name: str) -> tuple[list[dict], str]:
    done = run_python(PROGRAMS / f"{name}.py")
    return last_json(done), done.stderr


@pytest.fixture(scope="module")
def outcomes():
    """What every program printed: two at a time, because most of a program's time is TensorFlow's import."""
    with ThreadPoolExecutor(2) as pool:
        names = [*LEAKS, *CLEAN]
        return dict(zip(names, pool.map(run, names), strict=True))


def test_every_program_that_leaks_is_expected_to():
    assert sorted(LEAKS) == sorted(path.stem for path in PROGRAMS.glob("leak_*.py"))
    assert len(CLEAN) >= 5


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_found_and_named(outcomes, name):
    findings, printed = outcomes[name]
    kind, who, code = LEAKS[name]
    assert [finding["name"] for finding in findings] == [kind]
    (finding,) = findings
    assert who in finding["who"]
    assert finding["fix"]
    if code is not None:
        lines = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8").splitlines()
        (number,) = (number for number, line in enumerate(lines, start=1) if code in line)
        assert finding["source"] == f"{name}.py:{number}"
    assert kind in printed


@pytest.mark.parametrize("name", CLEAN)
def test_no_false_alarm(outcomes, name):
    findings, printed = outcomes[name]
    assert findings == []
    assert "nothing grows" in printed


def test_growth_of_what_is_kept_is_counted(outcomes):
    # A variable of 64 x 64 floats and an array of 256 x 1024 in each step; the watch began after the first.
    assert outcomes["leak_variables"][0][0]["growth_bytes_per_step"] >= 64 * 64 * 4 * 0.9
    assert outcomes["leak_arrays"][0][0]["growth_bytes_per_step"] >= 256 * 1024 * 4 * 0.5


def test_an_inactive_watch_says_so():
    watch = lowtide.Watch(quiet=True)
    assert watch.findings == []
    with pytest.raises(LowtideError, match="is not watching"):
        watch.step()
    assert watch.overhead == 0
    with pytest.raises(LowtideError, match="every=1"):
        lowtide.Watch(every=0)


def test_tensorflow_is_unchanged_after_the_watch():
    from tensorflow.python.eager.polymorphic_function import tracing_compilation
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

    before = Function.__call__, tracing_compilation._create_concrete_function
    with lowtide.Watch(quiet=True), lowtide.Watch(quiet=True):
        assert Function.__call__ is not before[0]
    assert (Function.__call__, tracing_compilation._create_concrete_function) == before


def test_an_error_of_the_program_passes_through():
    with pytest.raises(ZeroDivisionError), lowtide.Watch(quiet=True):
        raise ZeroDivisionError


def watch_steps(step, count=40):
    with lowtide.Watch(quiet=True) as watch:
        for number in range(count):
            step(number)
            watch.step()
    return watch


def test_tuples_of_losses_and_predictions_are_one_leak():
    kept = []
    watch = watch_steps(lambda number: kept.append((tf.random.normal(()), tf.random.normal((16, 8)))), count=200)
    (finding,) = watch.findings
    assert finding.who == "local `kept` of test_tuples_of_losses_and_predictions_are_one_leak"
    assert finding.source is not None
    # A scalar and 16 x 8 floats in each step.
    assert finding.growth_bytes_per_step >= (4 + 16 * 8 * 4) * 0.9
    assert "float(loss)" in finding.fix
    assert "predictions" in finding.fix
    assert "gradients" not in finding.fix


def test_two_lists_that_one_line_fills_are_two_leaks():
    first, second = [], []
    watch = watch_steps(lambda number: (first.append(tf.random.normal(())), second.append(tf.random.normal((3,)))))
    assert {finding.who.partition(" of ")[0] for finding in watch.findings} == {"local `first`", "local `second`"}


def test_advice_fits_what_is_kept():
    model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(5, use_bias=False)])
    variable = model.weights[0].value
    # Variables of other models say nothing about what this one's gradients are.
    others = [tf.Variable(tf.ones((rows, 3))) for rows in range(1, 9)]
    dataset = tf.data.Dataset.from_tensor_slices((tf.ones((80, 9)), tf.ones((80, 1)))).batch(2)
    batches = iter(dataset)
    kept: dict[str, list] = {"scalar": [], "of_weights": [], "examples": []}

    def step(number):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable**2)
        (gradient,) = tape.gradient(loss, [variable])
        chosen = {"scalar": loss, "of_weights": gradient, "examples": next(batches)}
        held.append(chosen[name])

    fixes = {}
    for name, held in kept.items():
        batches = iter(dataset)
        (finding,) = watch_steps(step).findings
        fixes[name] = finding.fix
        held.clear()
    assert "float(loss)" in fixes["scalar"]
    assert "global_norm" in fixes["of_weights"]
    assert fixes["examples"].startswith("do not keep batches")
    assert all("float(loss)" not in fix for name, fix in fixes.items() if name != "scalar")
    assert len(others) == 8


def test_predictions_with_the_shape_of_one_kernel_are_no_gradients():
    """A batch has as many rows as the last layer has inputs."""
    variables = [tf.Variable(tf.ones(shape)) for shape in ((7, 12), (12,), (12, 5), (5,))]
    kept = []
    (finding,) = watch_steps(lambda number: kept.append(tf.random.normal((12, 5)))).findings
    assert "predictions" in finding.fix
    assert "global_norm" not in finding.fix
    assert len(variables) == 4


def test_few_steps_do_not_show_what_is_kept(capsys):
    lowtide.release()
    with lowtide.Watch() as watch:
        watch.step()
        watch.step()
    printed = " ".join(capsys.readouterr().err.split())
    assert "nothing grows in 2 steps" in printed
    assert "tensors that are kept are found from 8 steps on" in printed


def test_a_watch_without_steps_says_how_to_use_it(capsys):
    lowtide.release()
    watch = lowtide.Watch()
    watch.report()
    unused = capsys.readouterr().err
    with watch:
        pass
    assert capsys.readouterr().err == unused
    printed = " ".join(unused.split())
    assert "no step was watched" in printed
    assert "watch.step()" in printed
    assert "nothing grows" not in printed
