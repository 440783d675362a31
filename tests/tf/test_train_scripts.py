"""What scripts do with `lt.KeepGoing` and `lt.Training`: several trainings, models that are built late, own steps.

A process that is killed is an exception here, after which the run is opened again as another process would.
"""

import itertools
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt
from lowtide.run.train.checkpoint_files import checkpoint_name, end_checkpoints, write_checkpoint
from lowtide.run.train.history import CheckpointWritten, History, Planned, StepsDone
from lowtide.tf.train import session, step_monitor
from lowtide.tf.train.results import Result, Results

layers = keras.layers
X = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")
Y = np.random.default_rng(1).integers(0, 3, 20)
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
            for each in list(session._sessions.values()):
                session.close_session(each)
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


def test_a_script_may_leave_out_a_training_whose_result_it_has_kept(tmp_path):
    def stages(folder, kill):
        first, second = network(), compiled(network())
        kept, file = [lt.KeepGoing(folder, steps=2), kill], folder.parent / f"{folder.name}.npz"
        if file.exists():
            first.set_weights(list(np.load(file).values()))
        else:
            compiled(first).fit(X, Y, batch_size=5, epochs=1, verbose=0, callbacks=kept)
            np.savez(file, *first.get_weights())
        second.fit(X, Y, batch_size=5, epochs=2, verbose=0, callbacks=kept)
        return bits(first), bits(second)

    # In the second training, before and after its first checkpoint.
    check_same(stages, tmp_path, 5, 5)


def test_a_training_goes_on_with_more_epochs_and_another_batch_size(tmp_path, capfd):
    def script(epochs, batch_size=5):
        def fit(folder, kill):
            model = compiled(network())
            kept = [lt.KeepGoing(folder, steps=2), kill]
            return model.fit(X, Y, batch_size, epochs, verbose=0, callbacks=kept).history, bits(model)

        return fit

    run(script(1), tmp_path / "run")
    assert run(script(2), tmp_path / "run") == run(script(2), tmp_path / "plain")
    assert "steps" not in capfd.readouterr().err

    def edited(folder, kill):
        return script(1, 5 if KillAfter.last else 10)(folder, kill)

    run(edited, tmp_path / "edited", (3,))
    assert "an epoch has 2 steps, and had 4" in capfd.readouterr().err


def test_steps_between_checkpoints_count_on_after_a_restart(tmp_path):
    def script(folder, kill):
        compiled(network()).fit(X, Y, batch_size=2, verbose=0, callbacks=[lt.KeepGoing(folder, steps=4), kill])

    run(script, tmp_path, (6,))
    written = [event.steps_done for event in History(tmp_path).read() if isinstance(event, CheckpointWritten)]
    assert written == [4, 8, 10]


def test_a_fit_beside_another_one_is_refused(tmp_path):
    class FitInThread(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            with ThreadPoolExecutor(1) as pool, pytest.raises(lt.LowtideError, match="one fit at a time"):
                pool.submit(fit, lt.KeepGoing(tmp_path)).result()

    def fit(*callbacks):
        compiled(network()).fit(X, Y, batch_size=5, verbose=0, callbacks=[*callbacks])

    run(lambda folder, kill: fit(lt.KeepGoing(folder), FitInThread()), tmp_path)
    assert len(end_checkpoints(tmp_path / "checkpoints")) == 1


def test_a_backup_of_keras_that_is_newer_than_the_checkpoint_is_not_used(tmp_path):
    def script(folder, kill):
        model = compiled(network())
        backup = keras.callbacks.BackupAndRestore(folder.parent / f"{folder.name}-backup")
        kept = [backup, lt.KeepGoing(folder, steps=6), kill]
        return model.fit(X, Y, batch_size=5, epochs=4, verbose=0, callbacks=kept).history, bits(model)

    # Epochs of four steps: the backup is of step 8, and the checkpoint of an earlier one.
    check_same(script, tmp_path, 9)


def test_an_epoch_that_takes_long_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr(step_monitor, "_SECONDS_BETWEEN_LINES", 0.0)

    def script(folder, kill):
        return compiled(network()).fit(X, Y, batch_size=5, verbose=0, callbacks=[lt.KeepGoing(folder)]).history

    logs = run(script, tmp_path)
    told = [each for each in History(tmp_path).read() if isinstance(each, StepsDone)]
    assert [(each.epoch, each.step, each.steps, each.steps_done) for each in told] == [
        (0, n, 4, n) for n in range(1, 5)
    ]
    assert told[-1].logs == {"loss": logs["loss"][0]}


class Gan(keras.Model):
    """As in many examples: two models, two optimizers, and the one of `compile` that nothing uses."""

    def __init__(self):
        super().__init__()
        self.maker, self.judge = network(late=True), network()
        self.seeds = keras.random.SeedGenerator(3)

    def compile(self, maker_optimizer, judge_optimizer):
        super().compile(jit_compile=False)
        self.maker_optimizer, self.judge_optimizer = maker_optimizer, judge_optimizer
        self.lost = keras.metrics.Mean(name="lost")

    @property
    def metrics(self):
        return [self.lost]

    def train_step(self, real):
        for model, optimizer in ((self.judge, self.judge_optimizer), (self.maker, self.maker_optimizer)):
            with tf.GradientTape() as tape:
                made = self.maker(keras.random.normal((5, 4), seed=self.seeds), training=True)
                lost = tf.reduce_mean(self.judge(tf.pad(made, [[0, 0], [0, 1]]), training=True) ** 2)
                lost += tf.reduce_mean((self.judge(real, training=True) - 1.0) ** 2)
            optimizer.apply(tape.gradient(lost, model.trainable_variables), model.trainable_variables)
        self.lost.update_state(lost)
        return {"lost": self.lost.result()}


def test_a_train_step_with_its_own_optimizers_continues(tmp_path):
    def script(folder, kill):
        gan = Gan()
        gan.compile(keras.optimizers.Adam(), keras.optimizers.RMSprop())
        kept = [lt.KeepGoing(folder, steps=3), kill]
        return gan.fit(X, batch_size=5, epochs=2, verbose=0, callbacks=kept).history, bits(gan.maker, gan.judge)

    check_same(script, tmp_path, 5)


def test_loops_written_by_hand_continue(tmp_path):
    def script(folder, kill):
        # Built by their first step: slots for each optimizer's own model, and all from the script's own step.
        models = {"first": network(late=True), "second": network(late=True)}
        optimizers = {name: keras.optimizers.Adam(0.01) for name in models}
        mean = keras.metrics.Mean()
        results = []

        @tf.function
        def step(x, y):
            for name, model in models.items():
                with tf.GradientTape() as tape:
                    lost = LOSS(y, model(x, training=True))
                optimizers[name].apply(tape.gradient(lost, model.trainable_variables), model.trainable_variables)
            mean.update_state(lost)

        data = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(8, seed=2).batch(5)
        training = lt.Training(folder, models=models, optimizers=optimizers, mean=mean, data=data, steps=2)
        for x, y in training.batches(epochs=1):
            step(x, y)
            kill.step()
        results.append((float(mean.result()), bits(*models.values())))
        assert len(optimizers["first"].variables) == 2 + 2 * 4
        other = network()
        training = lt.Training(folder, model=other, data=(X, Y), batch_size=5, steps=1)
        for x, _ in training.batches(epochs=1):
            other.layers[0].kernel.assign_add(tf.reduce_mean(other.layers[0].kernel * 0.1) + tf.ones((4, 6)) * x[0, 0])
            kill.step()
        return [*results, bits(other, *models.values())]

    check_same(script, tmp_path, 3, 5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"data": X}, "there is nothing to save"),
        ({"data": X, "best": 1.5}, "this cannot be restored (given: best=1.5)"),
        ({"data": None, "step": tf.Variable(0)}, "a training needs data"),
        ({"data": X, "step": tf.Variable(0), "minutes": -1}, "a time between them (given: minutes=-1)"),
        ({"data": X, "step": tf.Variable(0), "steps": 0}, "steps between them (given: steps=0)"),
    ],
)
def test_what_a_loop_cannot_be_given(tmp_path, given, words):
    with pytest.raises(lt.LowtideError, match=re.escape(words)):
        lt.Training(tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_another_scripts_run_and_a_strategy_are_refused(tmp_path, monkeypatch):
    def fit(folder, kill):
        model = compiled(network())
        model.fit(X, Y, verbose=0, callbacks=[lt.KeepGoing(folder)])

    run(fit, tmp_path / "run")
    monkeypatch.setattr(sys, "argv", ["other.py"])
    with pytest.raises(lt.LowtideError, match="holds the run of another program"):
        run(fit, tmp_path / "run")
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope(), pytest.raises(lt.LowtideError, match="MirroredStrategy"):
        fit(tmp_path / "mirrored", None)


def test_each_step_that_fits_is_told_and_saved_once(tmp_path):
    def script(folder, kill):
        keep = lt.KeepGoing(folder)
        keep.session().settings = keep.session().settings.changed(budget_bytes=512 << 20)
        models = [compiled(network()), compiled(network())]
        for model in (*models, models[0]):
            model.fit(X, Y, verbose=0, callbacks=[keep])
        return

    run(script, tmp_path)
    assert [event.planned_bytes for event in History(tmp_path).read() if isinstance(event, Planned)] == [None, None]
    assert sorted(path.name for path in (tmp_path / "tides").iterdir()) == ["attempt-1-1.tide", "attempt-1-2.tide"]

    # A restart splits batches as before, also if that is not needed.
    part = Planned(attempt=1, predicted_bytes=1, budget_bytes=512 << 20, pieces=4, training=0, batch_size=20)
    History(tmp_path / "again").path.parent.mkdir()
    (tmp_path / "again" / "run.json").write_text((tmp_path / "run.json").read_text())
    History(tmp_path / "again").append(part)
    run(script, tmp_path / "again")
    plans = [event for event in History(tmp_path / "again").read() if isinstance(event, Planned)]
    assert [plan.pieces for plan in plans] == [4, 4, 1]


def test_a_fit_inside_of_another_is_told(tmp_path, capfd):
    def script(folder, kill):
        inner, outer = compiled(network()), compiled(network())
        within = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: inner.fit(X, Y, verbose=0))
        outer.fit(X, Y, epochs=2, verbose=0, callbacks=[lt.KeepGoing(folder), within])
        outer.fit(X, Y, verbose=0, callbacks=[lt.KeepGoing(folder)])

    run(script, tmp_path / "run")
    assert capfd.readouterr().err.count("a fit inside of this one trains a model") == 1


def test_earlier_results_of_a_model_have_limited_room(tmp_path):
    results = Results([], most_earlier_bytes=25)
    for training, model in enumerate([0, 1, 0, 0, 0]):
        path = write_checkpoint(tmp_path, checkpoint_name(training, is_end=True), lambda folder: None)
        results.add(Result(path, training, model, bytes=10))
    # Of model 0 the last one and two earlier ones; of model 1 the only one.
    assert [int(path.name[:12]) for path in end_checkpoints(tmp_path)] == [1, 2, 3, 4]
    assert results.find(1, 1).training == 1
    assert results.find(0, 0).training == 2
