"""Hooks into TensorFlow: calls of functions, traces, gradient tapes, sessions, the start of a profiler.

TensorFlow has no public API for these. Each function that they pass through is wrapped while at least one listener
handles its event, and restored when the last such listener is removed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.client.session import BaseSession
from tensorflow.python.eager import imperative_grad
from tensorflow.python.eager.backprop import GradientTape
from tensorflow.python.eager.polymorphic_function import tracing_compilation
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
from tensorflow.python.profiler import profiler_v2

EndCall = Callable[[bool], None]
"""Called when a call ends; the argument says whether it raised."""


class Listener:
    """The events. A subclass overrides those that it handles; each is called in the thread in which it happens."""

    def begin_concrete_call(self, concrete: Any, inputs: Any) -> EndCall | None:
        """A traced function is about to run, in eager mode or inside of another trace."""

    def begin_run(self, session: Any, fetches: Any) -> EndCall | None:
        """A session is about to run."""

    def on_call(self, function: Any, arguments: tuple, keywords: dict[str, Any]) -> None:
        """A tf.function has returned that was not called by another one."""

    def on_trace(self, function_type: Any, options: Any) -> None:
        """A function is about to be traced."""

    def on_tape(self) -> None:
        """A gradient tape is about to be opened."""

    def begin_gradient(self) -> EndCall | None:
        """A tape is about to compute gradients eagerly."""

    def on_gradient(self) -> None:
        """A tape outside of any function has computed gradients."""

    def on_session(self, session: Any) -> None:
        """A session was created."""

    def on_run(self, session: Any) -> None:
        """A session has run without an error."""

    def on_profiler_start(self) -> None:
        """The program is about to start TensorFlow's profiler."""


class WatchedCall:
    """A call that listeners have seen begin: at its end all of `ends` are called."""

    __slots__ = ("_ends",)

    def __init__(self, ends: Iterable[EndCall | None]) -> None:
        self._ends = [end for end in ends if end is not None]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        for end in self._ends:
            end(kind is not None)


class _Hook(NamedTuple):
    """An attribute to replace, the wrapper that replaces it, and the events that the wrapper sends."""

    owner: Any
    name: str
    wrap: Callable[[Any], Any]
    events: tuple[str, ...]


_EVENTS = tuple(name for name in vars(Listener) if name.startswith(("begin_", "on_")))
_listeners: dict[str, tuple[Listener, ...]] = dict.fromkeys(_EVENTS, ())
_originals: dict[_Hook, Any] = {}
_lock = threading.Lock()
# Whether this thread is inside of a tf.function's call: another call is then part of it.
_thread = threading.local()


def add_listener(listener: Listener) -> None:
    """Send events to a listener, until it is removed."""
    with _lock:
        for event in _EVENTS:
            if getattr(type(listener), event) is not getattr(Listener, event):
                _listeners[event] = (*_listeners[event], listener)
        _update_hooks()


def remove_listener(listener: Listener) -> None:
    """Send no more events to a listener."""
    with _lock:
        for event, listeners in _listeners.items():
            _listeners[event] = tuple(each for each in listeners if each is not listener)
        _update_hooks()


def _update_hooks() -> None:
    """Install the hooks whose events are handled, and remove the others."""
    for hook in _HOOKS:
        is_needed = any(_listeners[event] for event in hook.events)
        if not is_needed and hook in _originals:
            setattr(hook.owner, hook.name, _originals.pop(hook))
        elif is_needed and hook not in _originals:
            original = getattr(hook.owner, hook.name, None)
            # A version of TensorFlow without this name sends no such events.
            if original is not None:
                _originals[hook] = original
                setattr(hook.owner, hook.name, hook.wrap(original))


def _hidden(original: Any) -> Callable[[Callable[..., Any]], Any]:
    """Give a wrapper the file name of what it wraps: TensorFlow and Keras leave their own files out of tracebacks."""

    def hide(wrapper: Callable[..., Any]) -> Any:
        wrapper.__code__ = wrapper.__code__.replace(co_filename=original.__code__.co_filename)
        return functools.wraps(original)(wrapper)

    return hide


def _wrap_concrete_call(original: Any) -> Any:
    @_hidden(original)
    def call_concrete(self: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        listeners = _listeners["begin_concrete_call"]
        with WatchedCall(listener.begin_concrete_call(self, tensor_inputs) for listener in listeners):
            return original(self, tensor_inputs, captured_inputs)

    return call_concrete


def _wrap_run(original: Any) -> Any:
    @_hidden(original)
    def run(self: Any, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        with WatchedCall(listener.begin_run(self, fetches) for listener in _listeners["begin_run"]):
            result = original(self, fetches, feed_dict, options, run_metadata)
        for listener in _listeners["on_run"]:
            listener.on_run(self)
        return result

    return run


def _wrap_call(original: Any) -> Any:
    # Not hidden: a search for the holders of tensors leaves out lowtide's own frames, and with it these arguments.
    @functools.wraps(original)
    def __call__(self: Any, *arguments: Any, **keywords: Any) -> Any:  # noqa: N807
        if getattr(_thread, "is_calling", False):
            return original(self, *arguments, **keywords)
        _thread.is_calling = True
        try:
            return original(self, *arguments, **keywords)
        finally:
            _thread.is_calling = False
            for listener in _listeners["on_call"]:
                listener.on_call(self, arguments, keywords)

    return __call__


def _wrap_trace(original: Any) -> Any:
    @functools.wraps(original)
    def trace(function_type: Any, type_context: Any, func_graph: Any, tracing_options: Any) -> Any:
        for listener in _listeners["on_trace"]:
            listener.on_trace(function_type, tracing_options)
        return original(function_type, type_context, func_graph, tracing_options)

    return trace


def _wrap_tape(original: Any) -> Any:
    @_hidden(original)
    def __enter__(self: Any) -> Any:  # noqa: N807
        for listener in _listeners["on_tape"]:
            listener.on_tape()
        return original(self)

    return __enter__


def _wrap_gradient(original: Any) -> Any:
    @functools.wraps(original)
    def gradient(self: Any, *arguments: Any, **keywords: Any) -> Any:
        result = original(self, *arguments, **keywords)
        if tf.executing_eagerly() and not getattr(_thread, "is_calling", False):
            for listener in _listeners["on_gradient"]:
                listener.on_gradient()
        return result

    return gradient


def _wrap_backward_pass(original: Any) -> Any:
    @_hidden(original)
    def imperative_grad(*arguments: Any, **keywords: Any) -> Any:
        if not tf.executing_eagerly():
            return original(*arguments, **keywords)
        with WatchedCall(listener.begin_gradient() for listener in _listeners["begin_gradient"]):
            return original(*arguments, **keywords)

    return imperative_grad


def _wrap_session(original: Any) -> Any:
    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **keywords: Any) -> None:  # noqa: N807
        original(self, *arguments, **keywords)
        for listener in _listeners["on_session"]:
            listener.on_session(self)

    return __init__


def _wrap_profiler_start(original: Any) -> Any:
    @_hidden(original)
    def start(logdir: str, options: Any = None) -> Any:
        for listener in _listeners["on_profiler_start"]:
            listener.on_profiler_start()
        return original(logdir, options)

    return start


_HOOKS = (
    _Hook(ConcreteFunction, "_call_flat", _wrap_concrete_call, ("begin_concrete_call",)),
    _Hook(BaseSession, "run", _wrap_run, ("begin_run", "on_run")),
    _Hook(BaseSession, "__init__", _wrap_session, ("on_session",)),
    _Hook(Function, "__call__", _wrap_call, ("on_call", "on_gradient")),
    _Hook(tracing_compilation, "_create_concrete_function", _wrap_trace, ("on_trace",)),
    _Hook(GradientTape, "__enter__", _wrap_tape, ("on_tape",)),
    _Hook(imperative_grad, "imperative_grad", _wrap_backward_pass, ("begin_gradient",)),
    _Hook(GradientTape, "gradient", _wrap_gradient, ("on_gradient",)),
    _Hook(profiler_v2, "start", _wrap_profiler_start, ("on_profiler_start",)),
    _Hook(tf.profiler.experimental, "start", _wrap_profiler_start, ("on_profiler_start",)),
)
