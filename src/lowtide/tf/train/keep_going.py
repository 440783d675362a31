"""`lt.KeepGoing`: a callback with which `fit` writes checkpoints, and continues from them when it is started again."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import keras

from lowtide.errors import LowtideError
from lowtide.run.train.fit_hook import NOT_OF_A_RUN, let_fits_belong
from lowtide.tf.train.fit import FitTraining, RunCallback, list_callbacks
from lowtide.tf.train.session import RunSession, check_intervals, open_session, supervised_session


class KeepGoing(RunCallback):
    """Continue a training where it was when its process ended.

        model.fit(data, epochs=10, callbacks=[lt.KeepGoing("runs/a")])

    A checkpoint is written every `minutes`, after every `steps` if that is given, at the ends of epochs, and when the
    process gets SIGTERM or SIGINT. Started again with the same data and arguments, `fit` continues with the next batch:
    weights, optimizer, metrics, callbacks, random generators and the order of the data are what they were.

    Under `lowtide train` its directory and its options for checkpoints are used, and those given here are not.
    """

    def __init__(self, path: str | os.PathLike[str], *, minutes: float | None = None, steps: int | None = None) -> None:
        super().__init__()
        check_intervals(minutes, steps)
        self.path = path
        self.minutes = minutes
        self.steps = steps
        self.is_of_a_run = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Refuse a `fit` that is not that of lowtide: it would begin at its beginning each time."""
        if not self.is_of_a_run:
            cure = "import lowtide before the method is taken from the class, and fit with the TensorFlow backend"
            raise LowtideError("lt.KeepGoing is in a training that it cannot continue", cure=cure)

    def session(self) -> RunSession:
        """Return the run of this callback."""
        seconds = None if self.minutes is None else self.minutes * 60
        return supervised_session() or open_session(self.path, seconds=seconds, steps=self.steps)


def run_fit(original: Callable[..., Any], model: keras.Model, arguments: dict[str, Any]) -> Any:
    """Run a call of `fit` as a part of its run, if it has one."""
    found = [each for each in list_callbacks(arguments["callbacks"]) if isinstance(each, KeepGoing)]
    for each in found:
        each.is_of_a_run = True
    session = found[0].session() if found else supervised_session()
    if session is None:
        return NOT_OF_A_RUN
    with session.one_fit():
        return FitTraining(session, model, arguments).run(original)


let_fits_belong(lambda: run_fit)
