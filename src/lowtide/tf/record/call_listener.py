"""Reports the calls of a program to a recorder: traced functions, runs of sessions, gradient tapes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from lowtide.run.record import TAPE
from lowtide.tf.hooks import EndCall, Listener
from lowtide.tf.record.recorder import Recorder
from lowtide.tf.record.training_calls import fetched_names, fetches_train, function_trains

_TRACED_NAME = re.compile(r"^__(inference|forward|backward)_(.+?)_\d+$")


def function_name(concrete: Any) -> str:
    """A name that is the same for all traces of a function.

    Keras uses one name for its functions for training and testing; the number of captured inputs distinguishes them.
    """
    full_name = tf.compat.as_str(concrete.name)
    match = _TRACED_NAME.match(full_name)
    name = match[2] if match else full_name
    role = "backward " if match and match[1] == "backward" else ""
    return f"{role}{name}/{len(concrete.captured_inputs)}"


class FunctionListener(Listener):
    """Reports calls of traced functions."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def begin_concrete_call(self, concrete: Any, inputs: Sequence[Any]) -> EndCall | None:
        if self.recorder.is_inside or not tf.executing_eagerly():
            return None
        return self._begin(function_name(concrete), concrete, inputs, lambda: function_trains(concrete))

    def _begin(self, name: str, concrete: Any, inputs: Sequence[Any], trains: Callable[[], bool]) -> EndCall:
        return functools.partial(self.recorder.end_call, self.recorder.begin_call(name, concrete, inputs, trains))


class ScriptListener(FunctionListener):
    """Reports everything that may be a step of a script, and makes way for the script's own profiler."""

    def begin_run(self, session: Any, fetches: Any) -> EndCall | None:
        if self.recorder.is_inside:
            return None
        return self._begin(f"session {fetched_names(fetches)}", None, (), lambda: fetches_train(session.graph, fetches))

    def on_tape(self) -> None:
        # A loop that runs op by op calls no function, but it opens a tape in each step.
        if self.recorder.is_inside or not tf.executing_eagerly():
            return
        # Imported late: they need Keras, which may be partly imported when TensorFlow has just been.
        from lowtide.tf.call_stack import user_line
        from lowtide.tf.eager_hooks import tape_is_recording

        # A tape inside of another one, or beside it, belongs to the same step.
        if not tape_is_recording():
            self.recorder.begin_tape(f"{TAPE} at {user_line()}")

    def begin_gradient(self) -> EndCall | None:
        return None if self.recorder.is_inside else self.recorder.begin_backward()

    def on_profiler_start(self) -> None:
        # TensorFlow has one profiler; the script's own use of it takes precedence.
        with self.recorder.lock:
            self.recorder.close_window()
