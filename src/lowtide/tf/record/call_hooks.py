"""Where every program passes: the call of a traced function, the run of a session, the opening of a gradient tape.

TensorFlow has no place to be told of these, so what all programs go through is wrapped. The wrappers carry the file
names of what they wrap: TensorFlow and Keras hide their own frames from tracebacks, and hide these with them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.client import session as sessions
from tensorflow.python.eager import backprop, context
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.profiler import profiler_v2

from lowtide.run.record import TAPE
from lowtide.tf.record.training_calls import fetched_names, fetches_train, function_trains

if TYPE_CHECKING:
    from lowtide.tf.record.recorder import Recorder

_TRACED_NAME = re.compile(r"^__(inference|forward|backward)_(.+?)_\d+$")


def function_name(concrete: Any) -> str:
    """What a traced function is called from call to call: Keras's functions for training and testing share a name."""
    match = _TRACED_NAME.match(tf.compat.as_str(concrete.name))
    name = f"{match[2]}" if match else tf.compat.as_str(concrete.name)
    role = "backward " if match and match[1] == "backward" else ""
    return f"{role}{name}/{len(concrete.captured_inputs)}"


def watch_functions(recorder: Recorder) -> Callable[[], None]:
    """Let the recorder know of every call of a traced function; what is returned ends that."""
    owner = concrete_function.ConcreteFunction
    original = owner._call_flat

    def _call_flat(self: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        if recorder.is_inside or not context.executing_eagerly():
            return original(self, tensor_inputs, captured_inputs)
        number = recorder.begin(function_name(self), self, tensor_inputs, lambda: function_trains(self))
        try:
            result = original(self, tensor_inputs, captured_inputs)
        except BaseException:
            recorder.fail_call()
            raise
        recorder.end_call(number)
        return result

    owner._call_flat = _disguised(_call_flat, original)
    return lambda: setattr(owner, "_call_flat", original)


def watch_sessions(recorder: Recorder) -> None:
    """Let the recorder know of every run of a session."""
    original = sessions.BaseSession.run

    def run(self: Any, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        if recorder.is_inside:
            return original(self, fetches, feed_dict, options, run_metadata)
        name = f"session {fetched_names(fetches)}"
        number = recorder.begin(name, None, (), lambda: fetches_train(self.graph, fetches))
        try:
            result = original(self, fetches, feed_dict, options, run_metadata)
        except BaseException:
            recorder.fail_call()
            raise
        recorder.end_call(number)
        return result

    sessions.BaseSession.run = _disguised(run, original)


def watch_tapes(recorder: Recorder) -> None:
    """A loop that runs op by op has no function to call, but it opens a tape for each step."""
    original = backprop.GradientTape.__enter__

    def __enter__(self: Any) -> Any:  # noqa: N807
        if not recorder.is_inside and context.executing_eagerly():
            recorder.end_call(recorder.begin(TAPE, None, (), lambda: True))
        return original(self)

    backprop.GradientTape.__enter__ = _disguised(__enter__, original)


def make_way_for_the_scripts_profiler(recorder: Recorder) -> None:
    """TensorFlow has one profiler; the script's own use of it comes first."""
    original = profiler_v2.start

    def start(logdir: str, options: Any = None) -> Any:
        with recorder.lock:
            recorder.close_window()
        return original(logdir, options)

    profiler_v2.start = tf.profiler.experimental.start = _disguised(start, original)


def _disguised(function: Callable[..., Any], original: Any) -> Any:
    """TensorFlow and Keras hide their own files from tracebacks: what stands in between is hidden likewise."""
    function.__code__ = function.__code__.replace(co_filename=original.__code__.co_filename)
    return functools.wraps(original)(function)
