"""A training that is restored from what a checkpoint contains continues bit for bit."""

from __future__ import annotations

import collections
import contextlib
import errno
import random
import re
import shutil
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
import train_programs
from train_programs import FEATURES, ROWS, Gan, batches, compiled, contents, network, ready, train

from lowtide.errors import LowtideError
from lowtide.tf.train.callbacks import capture_callbacks, prepare_callbacks, restore_callbacks
from lowtide.tf.train.plain_data import load_state, plain_bytes, save_state
from lowtide.tf.train.state import capture_random, find_unrestored_random, find_variables, restore_random
from lowtide.tf.train.variables import PREFIX, restore_variables, save_variables
from tests.children import child_environment, last_json, run_python

layers, optimizers = keras.layers, keras.optimizers
MIB = 1 << 20


def same(first, second) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(one, other) and one.dtype == other.dtype for one, other in zip(first, second, strict=True)
    )


def keep(model, folder) -> None:
    save_variables(find_variables(model), folder)
    save_state(folder, {"random": capture_random()})


def bring_back(model, folder) -> None:
    restore_variables(find_variables(model), folder)
    restore_random(load_state(folder)["random"])


def check_continues(build, folder, shape=(FEATURES,)) -> None:
    """Train 5 steps, save, train 3 more; a fresh model that is restored must do the same 3 steps."""
    keras.utils.set_random_seed(1)
    model = build()
    train(model, batches(5, 0, shape))
    keep(model, folder)
    expected = train(model, batches(3, 5, shape))

    keras.utils.set_random_seed(2)
    fresh = ready(build(), shape)
    assert not same(contents(fresh), contents(model))
    bring_back(fresh, folder)
    assert train(fresh, batches(3, 5, shape)) == expected
    assert same(contents(fresh), contents(model))


def test_a_training_continues_in_a_fresh_model(tmp_path):
    check_continues(network, tmp_path)


def test_a_training_continues_in_another_process(tmp_path):
    keras.utils.set_random_seed(1)
    model = network()
    train(model, batches(5))
    keep(model, tmp_path)
    expected = {"logs": train(model, batches(3, 5)), "random": float(np.random.normal())}
    done = run_python(train_programs.__file__, "continue", tmp_path)
    assert last_json(done) == expected
    with np.load(tmp_path / "continued.npz") as stored:
        assert same([stored[str(number)] for number in range(len(stored))], contents(model))


def test_the_variables_of_every_device_are_restored(tmp_path):
    assert last_json(run_python(train_programs.__file__, "devices", tmp_path)) is True


def test_a_full_disk_is_not_taken_for_memory_that_ran_out(tmp_path):
    mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount -t tmpfs -o size=1m none "$0"'
    if shutil.which("unshare") is None or subprocess.run([*mounted, mount, tmp_path], check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    command = [*mounted, f'{mount} && exec "$@" "$0"', tmp_path, sys.executable, train_programs.__file__, "full"]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=True)
    assert last_json(done) == [errno.ENOSPC, str(tmp_path)]


OPTIMIZERS = {
    "adam amsgrad": lambda: optimizers.Adam(0.01, amsgrad=True, weight_decay=0.01),
    "sgd momentum": lambda: optimizers.SGD(0.01, momentum=0.9, nesterov=True),
    "rmsprop centered": lambda: optimizers.RMSprop(0.01, centered=True, momentum=0.5),
    "adafactor": lambda: optimizers.Adafactor(0.01),
    "lion": lambda: optimizers.Lion(0.01),
    "loss scale": lambda: optimizers.LossScaleOptimizer(optimizers.Adam(0.01), dynamic_growth_steps=2),
    "accumulation": lambda: optimizers.Adam(0.01, gradient_accumulation_steps=3),
    "ema": lambda: optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=2),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_a_training_continues_with_every_optimizer(make, tmp_path):
    def build():
        return compiled(keras.Sequential([keras.Input((FEATURES,)), layers.Dense(4), layers.Dense(3)]), make())

    check_continues(build, tmp_path)


def test_a_training_with_recurrent_dropout_continues(tmp_path):
    def build():
        recurrent = layers.LSTM(5, dropout=0.2, recurrent_dropout=0.3)
        return compiled(keras.Sequential([keras.Input((4, FEATURES)), recurrent, layers.Dense(3)]), "adam")

    check_continues(build, tmp_path, (4, FEATURES))


def test_a_training_in_bfloat16_continues(tmp_path):
    def build():
        dense = layers.Dense(8, dtype="bfloat16")
        return compiled(keras.Sequential([keras.Input((FEATURES,)), dense, layers.Dense(3)]), "adam")

    check_continues(build, tmp_path)


def test_two_models_with_two_optimizers_continue(tmp_path):
    keras.utils.set_random_seed(1)
    tf.random.get_global_generator().reset_from_seed(1)
    gan = Gan()
    for x, _ in batches(5):
        gan.train(x)
    keep(gan, tmp_path)
    expected = [gan.train(x) for x, _ in batches(3, 5)]

    keras.utils.set_random_seed(2)
    tf.random.get_global_generator().reset_from_seed(2)
    fresh = Gan()
    bring_back(fresh, tmp_path)
    assert [fresh.train(x) for x, _ in batches(3, 5)] == expected
    assert same(contents(fresh), contents(gan))


def test_every_variable_is_found_once_and_in_the_same_order():
    def paths(model):
        return [re.sub(r"\d+", "", getattr(variable, "path", variable.name)) for variable in find_variables(model)]

    gan = Gan()
    assert paths(gan) == paths(Gan())
    found = find_variables(gan, gan.optimizers.values(), [gan.steps, gan])
    assert len(found) == len(find_variables(gan)) == len({id(variable) for variable in found})
    # Two kernels and biases, Dropout's seed; m and v of Adam and one of RMSprop for each, two iterations and rates;
    # total and count of the metric; the counter.
    assert len(found) == 4 + 1 + 4 + 2 + 2 * 2 + 2 + 1
    assert any(variable is gan.steps for variable in found)


def test_a_checkpoint_is_one_of_tensorflow(tmp_path):
    variables = [
        tf.Variable([1.5, 2.5], name="plain"),
        keras.Variable(np.array([[True], [False]]), dtype="bool", name="mask"),
        tf.Variable(7, dtype=tf.int64),
        tf.Variable(tf.constant([1, 2], tf.bfloat16)),
        tf.Variable(tf.zeros((0, 3))),
        tf.Variable([3.5], shape=tf.TensorShape(None)),
        tf.Variable([[4.5]], shape=(None, 1)),
    ]
    expected = [np.asarray(variable.numpy()) for variable in variables]
    save_variables(variables, tmp_path)
    reader = tf.train.load_checkpoint(tmp_path / PREFIX)
    assert np.array_equal(reader.get_tensor("000/plain"), [1.5, 2.5])
    for variable in variables:
        variable.assign(tf.zeros_like(variable))
    restore_variables(variables, tmp_path)
    assert same([np.asarray(variable.numpy()) for variable in variables], expected)


def test_no_variables_are_no_files(tmp_path):
    save_variables([], tmp_path)
    restore_variables([], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_large_variable_is_stored_in_slices_and_keeps_its_buffer(tmp_path):
    values = np.random.default_rng(0).normal(size=(9, 1 << 20)).astype("float32")
    variable, other = tf.Variable(values, name="large"), tf.Variable([1.0])
    save_variables([variable, other], tmp_path)
    assert len(list(tmp_path.glob(f"{PREFIX}.data-*"))) == 3
    variable.assign(tf.zeros_like(variable))
    address = variable.read_value_no_copy().__array__().__array_interface__["data"][0]
    restore_variables([variable, other], tmp_path)
    assert np.array_equal(variable.numpy(), values)
    assert np.array_equal(tf.train.load_checkpoint(tmp_path / PREFIX).get_tensor("000/large"), values)
    assert variable.read_value_no_copy().__array__().__array_interface__["data"][0] == address


def test_a_variable_in_copy_on_read_mode_is_not_copied(tmp_path):
    figures = last_json(run_python(train_programs.__file__, "memory", tmp_path, limit_mib=1200))
    assert figures["plain read"] >= figures["variable"]
    # 16 MiB, and what the allocator does not split off from a free chunk.
    assert figures["save"] <= 20 * MIB
    assert figures["update after save"] <= MIB
    assert figures["restore"] <= 20 * MIB
    assert figures["read after restore"] == 0


def changed(units=10, name="dense", dtype="float32", more=0):
    hidden = [layers.Dense(units, name=name, dtype=dtype), *(layers.Dense(units, name="more") for _ in range(more))]
    return keras.Sequential([keras.Input((FEATURES,)), *hidden])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"units": 12}, r"dense/kernel is \(6, 12\), and was \(6, 10\)"),
        ({"name": "head"}, r"head/kernel \(6, 10\) is in the place of dense/kernel \(6, 10\)"),
        ({"dtype": "bfloat16"}, "dense/kernel is bfloat16, and was float32"),
        ({"more": 1}, "more/kernel is new"),
    ],
    ids=["shape", "name", "dtype", "one more"],
)
def test_a_changed_model_is_refused_and_stays_as_it_is(change, words, tmp_path):
    now = changed(**change)
    save_variables(find_variables(changed()), tmp_path)
    before = contents(now)
    with pytest.raises(LowtideError, match="the model has changed since the checkpoint: " + words):
        restore_variables(find_variables(now), tmp_path)
    assert same(contents(now), before)


def test_a_missing_variable_is_named(tmp_path):
    model = changed()
    save_variables(find_variables(model), tmp_path)
    with pytest.raises(LowtideError, match="dense/bias is missing"):
        restore_variables(find_variables(model)[:1], tmp_path)


def test_where_a_variable_was_built_and_numbers_that_keras_gives_do_not_count(tmp_path):
    with keras.name_scope("adam_2"):
        built = keras.Variable([1.0], name="dense_3_kernel_momentum")
    save_variables([built], tmp_path)
    for scopes in (["adam"], ["loss_scale", "adam_7"], []):
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            variable = keras.Variable([2.0], name="dense_kernel_momentum")
        assert variable.path == "/".join([*scopes, "dense_kernel_momentum"])
        restore_variables([variable], tmp_path)
        assert variable.numpy() == 1.0


def draw() -> list[object]:
    eager = tf.random.normal((2,)).numpy().tolist(), keras.random.uniform((2,)).numpy().tolist()
    own = tf.random.get_global_generator().uniform((2,)).numpy().tolist()
    return [random.random(), random.gauss(0, 1), np.random.normal(), np.random.randint(99), eager, own]


def test_random_generators_continue(tmp_path):
    keras.utils.set_random_seed(3)
    draw()
    save_state(tmp_path, {"random": capture_random()})
    expected = draw()
    # As in a process that has not used Keras's and TensorFlow's generators yet.
    keras.utils.set_random_seed(3)
    keras.utils.clear_session()
    tf.random.set_global_generator(None)
    assert "keras" not in capture_random()
    restore_random(load_state(tmp_path)["random"])
    assert draw() == expected


def test_random_ops_that_keep_their_state_in_kernels_are_named():
    generator, seeds = tf.random.Generator.from_seed(1), keras.random.SeedGenerator(1)

    @tf.function
    def inner(x):
        return x + tf.random.normal((2,), name="noise")

    @tf.function
    def step(x):
        x += keras.random.normal((2,), seed=seeds) + generator.normal((2,)) + tf.random.stateless_normal((2,), [1, 2])
        return tf.random.shuffle(inner(x))

    found = find_unrestored_random(step.get_concrete_function(tf.TensorSpec((2,))).graph)
    assert sorted(each.split("/")[-1] for each in found) == [
        "RandomShuffle (RandomShuffle)",
        "RandomStandardNormal (RandomStandardNormal)",
    ]
    layer = keras.layers.Dropout(0.5)
    dropout = tf.function(lambda x: layer(x, training=True))
    assert find_unrestored_random(dropout.get_concrete_function(tf.TensorSpec((2,))).graph) == []


def test_plain_data_comes_back_with_its_types(tmp_path):
    state = {
        "numbers": [None, True, 3, -0.0, 1e-320, float("inf"), float("-inf"), "ü\n", b"\x00\xff", 2**80],
        "containers": {1: (1, [2]), (2, "x"): {3, 4}, None: frozenset({5}), "empty": {}},
        "queue": collections.deque([1, 2], maxlen=3),
        "arrays": [np.arange(6, dtype="int16").reshape(2, 3), np.array(True), np.zeros((0, 2)), np.array(["a", "bc"])],
        "scalars": [np.float32(0.1), np.float64(2.5), np.int64(-4), np.bool_(False)],
        "functions": [keras.ops.less, np.greater],
    }
    save_state(tmp_path, state)
    found = load_state(tmp_path)
    assert [type(each) for each in found["scalars"]] == [type(each) for each in state["scalars"]]
    assert same(found.pop("arrays"), state.pop("arrays"))
    assert found == state
    assert found["queue"].maxlen == 3


def test_not_a_number_a_tensor_and_bfloat16_come_back(tmp_path):
    brain = tf.constant([[1.5], [2.5]], tf.bfloat16)
    save_state(tmp_path, {"nan": float("nan"), "tensor": tf.constant([1, 2]), "array": brain.numpy(), "brain": brain})
    found = load_state(tmp_path)
    assert found["nan"] != found["nan"]
    assert tf.is_tensor(found["tensor"])
    assert found["tensor"].numpy().tolist() == [1, 2]
    assert same([found["array"]], [brain.numpy()])
    assert found["brain"].dtype == tf.bfloat16


def test_what_is_not_plain_data():
    endless: list[object] = []
    endless.append(endless)
    values = [object(), lambda: 1, threading.Lock(), np.array([object()]), int, endless, [print], keras.layers.Dense(1)]
    assert [plain_bytes(value) for value in values] == [None] * len(values)


def test_a_state_of_a_newer_version_is_refused(tmp_path):
    save_state(tmp_path, {})
    path = tmp_path / "state.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    with pytest.raises(LowtideError, match="newer version"):
        load_state(tmp_path)


class Killed(BaseException):
    """The process ends here."""


class Checkpoints(keras.callbacks.Callback):
    """The last of the callbacks: saves after one epoch, is killed after another, or restores when a training begins."""

    def __init__(self, folder, others, saved_after=None, killed_after=None):
        super().__init__()
        self.folder, self.others, self.saved_after, self.killed_after = folder, others, saved_after, killed_after

    def on_train_begin(self, logs=None):
        if self.saved_after is None:
            restore_variables(find_variables(self.model), self.folder)
            assert restore_callbacks(self.others, load_state(self.folder)["callbacks"]) == []

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.saved_after:
            save_variables(find_variables(self.model), self.folder)
            save_state(self.folder, {"callbacks": capture_callbacks(self.others)})
        if epoch == self.killed_after:
            raise Killed


DATA = tuple(np.concatenate(parts) for parts in zip(*batches(3), strict=True))
EPOCHS, SAVED_AFTER, KILLED_AFTER = 6, 2, 3


def fit(callbacks, checkpoints=None, first=0, make=lambda: optimizers.SGD(0.5, momentum=0.9)) -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((FEATURES,)), layers.Dense(8, activation="relu"), layers.Dense(3)])
    ready(compiled(model, make()))
    every = keras.callbacks.CallbackList(callbacks, add_history=True, model=model, epochs=EPOCHS, steps=3, verbose=0)
    if checkpoints is not None:
        checkpoints.others = every.callbacks.copy()
        every.callbacks.append(checkpoints)
        checkpoints.set_model(model)
    model.fit(
        *DATA, ROWS, epochs=EPOCHS, initial_epoch=first, shuffle=False, verbose=0, callbacks=every, validation_split=0.4
    )
    return model


def fit_in_two_processes(make_callbacks, folder, **settings):
    """Train until the process is killed, and again from the checkpoint; return the callbacks and the model."""
    killed = make_callbacks()
    with pytest.raises(Killed):
        fit(killed, Checkpoints(folder, (), SAVED_AFTER, KILLED_AFTER), **settings)
    for callback in killed:
        if isinstance(callback, keras.callbacks.CSVLogger):
            callback.csv_file.close()
    callbacks = make_callbacks()
    prepare_callbacks(callbacks, load_state(folder)["callbacks"])
    return callbacks, fit(callbacks, Checkpoints(folder, ()), SAVED_AFTER + 1, **settings)


def remembered(callback) -> dict[str, object]:
    attributes = capture_callbacks([callback])[0]["attributes"]
    return {name: value for name, value in attributes.items() if not name.startswith("_epoch_start")}


def check_remembers(make_callbacks, folder, **settings):
    callbacks = make_callbacks()
    model = fit(callbacks, **settings)
    others, continued = fit_in_two_processes(make_callbacks, folder, **settings)
    for callback, other in zip(callbacks, others, strict=True):
        np.testing.assert_equal(remembered(other), remembered(callback))
    assert continued.history.history == model.history.history
    assert continued.history.epoch == model.history.epoch
    assert same(contents(continued), contents(model))
    return callbacks, others


def test_early_stopping_continues(tmp_path):
    def make():
        return [keras.callbacks.EarlyStopping(patience=4, min_delta=0.02, restore_best_weights=True)]

    callbacks, others = check_remembers(make, tmp_path)
    # It had begun to wait: a new one would have stopped later.
    assert callbacks[0].stopped_epoch == others[0].stopped_epoch > 0
    assert others[0].min_delta == -0.02
    assert same(others[0].best_weights, callbacks[0].best_weights)


def test_learning_rates_continue(tmp_path):
    def make():
        halved = keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, cooldown=1)
        return [halved, keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9)]

    check_remembers(make, tmp_path)


def test_the_best_model_continues(tmp_path):
    def make():
        best = keras.callbacks.ModelCheckpoint(
            tmp_path / "best.weights.h5", save_best_only=True, save_weights_only=True
        )
        often = keras.callbacks.ModelCheckpoint(tmp_path / "last.weights.h5", save_weights_only=True, save_freq=4)
        return [best, often, keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None)]

    callbacks, others = check_remembers(make, tmp_path)
    assert callbacks[0].best is not None
    # 12 batches after the checkpoint, of which 9 were seen before: one is left over.
    assert others[1]._batches_seen_since_last_saving == 6 * 2 % 4


def test_averaged_weights_continue(tmp_path):
    check_remembers(
        lambda: [keras.callbacks.SwapEMAWeights(swap_on_epoch=True)],
        tmp_path,
        make=lambda: optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5),
    )


def test_the_rows_of_csv_logger_are_neither_lost_nor_repeated(tmp_path):
    fit([keras.callbacks.CSVLogger(tmp_path / "whole.csv")])
    names = iter(["first.csv", "second.csv"])

    def make():
        # A name with the time at which the script was started would differ too.
        return [keras.callbacks.CSVLogger(tmp_path / next(names))]

    fit_in_two_processes(make, tmp_path)
    assert (tmp_path / "first.csv").read_text() == (tmp_path / "whole.csv").read_text()
    assert not (tmp_path / "second.csv").exists()


def test_the_steps_of_tensorboard_continue(tmp_path):
    def make():
        return [keras.callbacks.TensorBoard(tmp_path / "logs", update_freq=2, write_graph=False)]

    callbacks, others = check_remembers(make, tmp_path)
    assert callbacks[0]._global_train_batch == others[0]._global_train_batch > 0


def test_what_tensorboard_holds_is_on_disk_with_the_checkpoint(tmp_path):
    board = keras.callbacks.TensorBoard(tmp_path, update_freq=1, write_graph=False)
    sizes = []

    def capture(batch, logs):
        (file,) = (tmp_path / "train").iterdir()
        sizes.append(file.stat().st_size)
        capture_callbacks([board])
        sizes.append(file.stat().st_size)

    fit([board, keras.callbacks.LambdaCallback(on_train_batch_end=capture)])
    assert all(after > before for before, after in zip(sizes[::2], sizes[1::2], strict=True))


class Remembering(keras.callbacks.Callback):
    """A user's own callback."""

    def __init__(self, images, rows):
        super().__init__()
        self.images = images
        self.rows = rows
        self.best = float("inf")
        self.not_yet = float("nan")
        self.lock = threading.Lock()
        self.seen: set[int] = set()
        self.counts = collections.defaultdict(int)
        self.recent = collections.deque(maxlen=2)
        self.total = np.zeros(3)
        self.average = tf.constant(0.0)

    def on_epoch_end(self, epoch, logs=None):
        self.best = min(self.best, logs["loss"])
        self.seen.add(epoch)
        self.counts[epoch % 2] += 1
        self.recent.append(logs["loss"])
        self.total = self.total + logs["loss"]
        self.average = 0.5 * self.average + logs["loss"]
        self.rows.append((epoch, logs["val_loss"]))


def test_a_callback_of_the_user_continues(tmp_path):
    images, rows = np.zeros((1 << 17, 2)), []
    callbacks, others = check_remembers(lambda: [Remembering(images, [])], tmp_path)
    assert "images" not in remembered(callbacks[0])
    assert others[0].images is images
    assert (tmp_path / "arrays.npz").stat().st_size < images.nbytes
    assert others[0].counts["another"] == 0
    # The script still holds the list.
    callback = Remembering(images, rows)
    assert restore_callbacks([callback], load_state(tmp_path)["callbacks"][:1]) == []
    assert callback.rows is rows
    assert [epoch for epoch, _ in rows] == [0, 1, 2]


def test_callbacks_are_matched_by_class_and_order():
    first, second = (keras.callbacks.EarlyStopping() for _ in range(2))
    first.best, second.best = 1.0, 2.0
    states = capture_callbacks([first, second, keras.callbacks.TerminateOnNaN()])
    others = [keras.callbacks.EarlyStopping() for _ in range(3)]
    assert restore_callbacks([keras.callbacks.History(), *others], states) == ["TerminateOnNaN"]
    assert [callback.best for callback in others] == [1.0, 2.0, None]


def test_a_state_can_be_restored_in_the_process_that_captured_it():
    callback = Remembering(None, [1])
    states = capture_callbacks([callback])
    restore_callbacks([callback], states)
    assert callback.rows == [1]
