"""Notice what TensorFlow does while somebody listens: calls of functions, traces, sessions, gradients.

TensorFlow has no place to be told of these. So the few functions that all of them go through are wrapped while there is
a listener, and put back as they were when the last one leaves.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.client.session import BaseSession
from tensorflow.python.eager.backprop import GradientTape
from tensorflow.python.eager.polymorphic_function import tracing_compilation
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from lowtide.tf.trace.source_lines import is_users


class Listener:
    """What can be heard. Each method is called in the thread in which it happened, and does nothing by itself."""

    def on_call(self, function: Any, arguments: tuple, keywords: dict[str, Any]) -> None:
        """A tf.function was called, not from inside of another one, and has returned."""

    def on_trace(self, function_type: Any, options: Any) -> None:
        """A function is about to be traced."""

    def on_gradient(self) -> None:
        """A tape outside of any function was asked for gradients."""

    def on_session(self, session: Any) -> None:
        """A session was opened."""

    def on_run(self, session: Any) -> None:
        """A session has run."""


_listeners: tuple[Listener, ...] = ()
_originals: list[tuple[Any, str, Any]] = []
_lock = threading.Lock()
# Inside of a function's call another one is part of it.
_inside = threading.local()


def listen(listener: Listener) -> None:
    global _listeners
    with _lock:
        if not _listeners:
            _install()
        _listeners = (*_listeners, listener)


def leave(listener: Listener) -> None:
    global _listeners
    with _lock:
        had = bool(_listeners)
        _listeners = tuple(each for each in _listeners if each is not listener)
        if had and not _listeners:
            while _originals:
                owner, name, original = _originals.pop()
                setattr(owner, name, original)


def _install() -> None:
    for owner, name, wrapper in (
        (Function, "__call__", _calling),
        (tracing_compilation, "_create_concrete_function", _tracing),
        (GradientTape, "gradient", _deriving),
        (BaseSession, "__init__", _opening),
        (BaseSession, "run", _running),
    ):
        original = getattr(owner, name, None)
        if original is None:
            # These names are TensorFlow's own. Where one is gone, what it would tell is not heard.
            continue
        _originals.append((owner, name, original))
        setattr(owner, name, wrapper(original))


def _calling(original: Callable) -> Callable:
    @functools.wraps(original)
    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if getattr(_inside, "call", False):
            return original(self, *arguments, **keywords)
        _inside.call = True
        try:
            return original(self, *arguments, **keywords)
        finally:
            _inside.call = False
            for listener in _listeners:
                listener.on_call(self, arguments, keywords)

    return call


def _tracing(original: Callable) -> Callable:
    @functools.wraps(original)
    def trace(function_type: Any, type_context: Any, func_graph: Any, tracing_options: Any) -> Any:
        for listener in _listeners:
            listener.on_trace(function_type, tracing_options)
        return original(function_type, type_context, func_graph, tracing_options)

    return trace


def _deriving(original: Callable) -> Callable:
    @functools.wraps(original)
    def gradient(self: Any, *arguments: Any, **keywords: Any) -> Any:
        result = original(self, *arguments, **keywords)
        if tf.executing_eagerly() and not getattr(_inside, "call", False):
            for listener in _listeners:
                listener.on_gradient()
        return result

    return gradient


def _opening(original: Callable) -> Callable:
    @functools.wraps(original)
    def initialize(self: Any, *arguments: Any, **keywords: Any) -> None:
        original(self, *arguments, **keywords)
        for listener in _listeners:
            listener.on_session(self)

    return initialize


def _running(original: Callable) -> Callable:
    @functools.wraps(original)
    def run(self: Any, *arguments: Any, **keywords: Any) -> Any:
        result = original(self, *arguments, **keywords)
        for listener in _listeners:
            listener.on_run(self)
        return result

    return run


def user_line() -> str | None:
    """The innermost line of the user's own that is being executed."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def caller_named(names: frozenset[str], package: str) -> str | None:
    """The outermost of the functions called `names` of a package that are being executed."""
    found = None
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name in names and package in code.co_filename:
            found = code.co_name
        frame = frame.f_back
    return found
