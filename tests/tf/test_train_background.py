"""Checkpoints that are written while the training goes on: a copy of the variables, and a thread."""

import errno
import os
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
import train_programs

import lowtide as lt
from lowtide.run.train.checkpoint_files import find_damage, newest_checkpoint
from lowtide.run.train.history import CheckpointWritten, History, Note
from lowtide.tf.train import checkpoint, session, variables_copy
from lowtide.tf.train.plain_data import load_state
from lowtide.tf.train.variables import PREFIX, save_pieces, save_variables
from lowtide.tf.train.variables_copy import copy_variables, should_copy
from tests.children import last_json, run_python

MIB = 1 << 20
X = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_copy_is_written_as_the_variables_were(tmp_path):
    values = np.random.default_rng(0).normal(size=(9, 1 << 20)).astype("float32")
    variables = [
        tf.Variable(values, name="large"),
        keras.Variable(np.array([[True], [False]]), dtype="bool", name="mask"),
        tf.Variable(7, dtype=tf.int64),
        tf.Variable(tf.constant([1, 2, 3], tf.bfloat16)),
        tf.Variable(tf.constant([1, 2, 3], tf.float16)),
        tf.Variable(tf.cast([1.0, 2.0], tf.dtypes.experimental.float8_e5m2)),
        tf.Variable([1 + 2j]),
        tf.Variable(["a", "text"]),
        tf.Variable(tf.zeros((0, 3))),
        tf.Variable([3.5], shape=tf.TensorShape(None)),
    ]
    folders = [tmp_path / "variables", tmp_path / "copy"]
    for folder in folders:
        folder.mkdir()
    save_variables(variables, folders[0])
    copied = copy_variables(variables)
    for position in (0, 2, 3, 9):
        variables[position].assign(tf.zeros_like(variables[position]))
    save_pieces(copied, folders[1])
    first, second = map(contents, folders)
    assert len(first) == 4
    assert first == second
    assert np.array_equal(tf.train.load_checkpoint(folders[1] / PREFIX).get_tensor("000/large"), values)


def test_a_copy_takes_nothing_from_the_allocator(tmp_path):
    figures = last_json(run_python(train_programs.__file__, "copy", tmp_path, limit_mib=1200))
    # Rows that are not a multiple of 64 bytes are read 16 MiB at a time.
    assert figures["copy"] <= 20 * MIB
    assert figures["held by the copy"] == 0
    # The names of the variables.
    assert figures["save"] <= MIB
    # The memory is the system's again.
    assert figures["resident with the copy"] > figures["variable"]
    assert figures["resident after it"] < figures["variable"] / 4


def test_without_room_there_is_no_copy(monkeypatch):
    variables = [tf.Variable(tf.zeros((5 * MIB,)))]
    size = 20 * MIB
    monkeypatch.setattr(variables_copy, "available_bytes", lambda: 2 * size)
    monkeypatch.setattr(variables_copy, "peak_bytes_in_use", lambda: 50 * MIB)
    monkeypatch.setattr(variables_copy, "device_name", lambda: "CPU:0")
    for limit, expected in ((None, True), (50 * MIB + size, True), (50 * MIB + size - 1, False)):
        monkeypatch.setattr(variables_copy, "limit_bytes", lambda limit=limit: limit)
        assert should_copy(variables) == expected
    # The limit is that of the host's allocator; the variables may be on another device.
    monkeypatch.setattr(variables_copy, "device_name", lambda: "GPU:0")
    assert should_copy(variables)
    assert not should_copy([tf.Variable(tf.zeros((MIB,)))])
    for available in (2 * size - 1, None):
        monkeypatch.setattr(variables_copy, "available_bytes", lambda available=available: available)
        assert not should_copy(variables)
    monkeypatch.setattr(variables_copy.mmap, "mmap", lambda *given: (_ for _ in ()).throw(OSError(errno.ENOMEM, "")))
    assert copy_variables(variables) is None


class Held:
    """Writes in the background wait until they are released, and may fail then."""

    def __init__(self, monkeypatch, error=None):
        self.released = threading.Event()
        self.error = error
        self.threads = []
        monkeypatch.setattr(variables_copy, "LEAST_BYTES", 0)
        monkeypatch.setattr(checkpoint, "save_pieces", self.save)

    def save(self, pieces, folder):
        self.threads.append(threading.current_thread())
        if self.threads[-1] is not threading.main_thread():
            assert self.released.wait(60)
            if self.error is not None:
                raise self.error
        save_pieces(pieces, folder)


def train(folder, on_step, *, epochs=2, steps=4):
    """Train 5 steps an epoch; `on_step` gets the number of updates and the model after each step."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    model.compile("adam", "mse", jit_compile=False)
    seen = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: on_step(int(model.optimizer.iterations), model)
    )
    try:
        keep = lt.KeepGoing(folder, steps=steps)
        model.fit(X, X[:, :2], batch_size=4, epochs=epochs, verbose=0, callbacks=[keep, seen])
    finally:
        for each in list(session._sessions.values()):
            session.close_session(each)
    return model


def test_a_checkpoint_has_the_state_of_its_step_though_the_training_goes_on(tmp_path, monkeypatch):
    held, weights = Held(monkeypatch), {}

    def on_step(steps, model):
        weights[steps] = model.get_weights()
        if steps == 7:
            assert newest_checkpoint(tmp_path / "checkpoints") == (None, [])
            held.released.set()

    train(tmp_path, on_step)
    written = [event for event in History(tmp_path).read() if isinstance(event, CheckpointWritten)]
    assert [(event.steps_done, event.reason) for event in written] == [
        (4, "every 4 steps"),
        (8, "every 4 steps"),
        (10, "end of the training"),
    ]
    assert [thread is threading.main_thread() for thread in held.threads] == [False, False, True]
    assert [event.blocked_seconds < event.seconds for event in written] == [True, True, False]
    for event in written[:2]:
        folder = tmp_path / "checkpoints" / event.name
        assert find_damage(folder) is None
        reader = tf.train.load_checkpoint(folder / PREFIX)
        found = [reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())[:4]]
        assert all(map(np.array_equal, found, weights[event.steps_done]))
        state = load_state(folder)
        assert (state["steps_done"], state["epoch"], state["step"]) == (event.steps_done, *divmod(event.steps_done, 5))


def test_a_failure_in_the_background_ends_the_training_after_the_next_step(tmp_path, monkeypatch):
    held = Held(monkeypatch, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    reached = []

    def on_step(steps, model):
        reached.append(steps)
        if steps == 6:
            held.released.set()
            held.threads[-1].join()

    with pytest.raises(OSError, match="No space left on device"):
        train(tmp_path, on_step)
    assert reached[-1] == 6
    assert list((tmp_path / "checkpoints").iterdir()) == []


@pytest.mark.parametrize("error", [None, OSError("the write's")])
def test_a_checkpoint_is_waited_for_though_the_script_fails(tmp_path, monkeypatch, error):
    held = Held(monkeypatch, error)

    def on_step(steps, model):
        if steps == 5:
            threading.Timer(0.1, held.released.set).start()
            raise RuntimeError("the script's own")

    with pytest.raises(RuntimeError, match="the script's own"):
        train(tmp_path, on_step)
    found, _ = newest_checkpoint(tmp_path / "checkpoints")
    notes = [event.text for event in History(tmp_path).read() if isinstance(event, Note)]
    if error is None:
        assert (found.name, notes) == (f"{4:012}", [])
    else:
        assert (found, notes) == (None, ["the checkpoint of step 4 was not written: the write's"])
