"""What scripts do with `lt.KeepGoing` and `lt.Training`: several trainings, models that are built late, own steps.

A process that is killed is an exception here, after which the run is opened again as another process would.
"""

import itertools

import keras
import numpy as np
import tensorflow as tf

import lowtide as lt
from lowtide.tf.train import session

layers = keras.layers
X = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")
Y = np.random.default_rng(1).integers(0, 3, 20)
BATCHES = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(8, seed=2).batch(5)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Killed(BaseException):
    """The process ends here."""


class KillAfter(keras.callbacks.Callback):
    """Ends the process after a step, counted over all trainings."""

    last = None

    def __init__(self):
        super().__init__()
        # Not plain data, which the run would restore.
        self._steps = itertools.count(1)

    def step(self):
        if next(self._steps) == KillAfter.last:
            raise Killed

    def on_train_batch_end(self, batch, logs=None):
        self.step()


def run(script, folder, kills=()):
    """Run a script until it is not killed; it gets the folder of the run, and the callback that kills it."""
    for step in (*kills, None):
        keras.utils.set_random_seed(1)
        try:
            KillAfter.last = step
            result = script(folder, KillAfter())
            assert step is None, "the process was to be killed"
        except Killed:
            continue
        finally:
            for each in session._sessions.values():
                each.directory.unlock()
            session._sessions.clear()
    return result


def check_same(script, folder, *kills):
    assert run(script, folder / "killed", kills) == run(script, folder / "plain")


def network(*, late=False):
    first = [] if late else [keras.Input((4,))]
    return keras.Sequential([*first, layers.Dense(6, activation="relu"), layers.Dropout(0.3), layers.Dense(3)])


def compiled(model, optimizer="adam"):
    model.compile(optimizer, LOSS, jit_compile=False)
    return model


def bits(*models):
    return [weight.tobytes() for model in models for weight in model.get_weights()]


def test_each_training_of_a_script_keeps_its_own_result(tmp_path):
    def folds(folder, kill):
        scores = []
        for fold in range(2):
            model = compiled(network())
            part = np.arange(20) % 4 != fold
            keep = lt.KeepGoing(folder, steps=2)
            history = model.fit(X[part], Y[part], batch_size=5, epochs=1, verbose=0, callbacks=[keep, kill])
            scores.append((history.history, bits(model)))
        return scores

    check_same(folds, tmp_path / "folds", 4)

    def rounds(folder, kill):
        model = compiled(network())
        kept = [keras.callbacks.EarlyStopping(monitor="loss"), lt.KeepGoing(folder, steps=3), kill]
        return [(model.fit(X, Y, epochs=1, verbose=0, callbacks=kept).history, bits(model)) for _ in range(3)]

    check_same(rounds, tmp_path / "rounds", 3)
