"""Hooks into eager execution: each op, the gradient of each op, calls of Keras layers, updates by Keras optimizers.

TensorFlow executes an eager op through one of two functions of `pywrap_tfe`, and computes the gradient of an op with a
Python function that it looks up when a tape runs backwards. They are replaced while a listener is installed. Graphs are
not affected: an op that is traced passes through neither function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import keras
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import backprop

from lowtide.tf.hooks import EndCall, WatchedCall


class EagerListener(Protocol):
    """The events; each is called in the thread in which it happens."""

    def begin_op(self, op: str, inputs: Sequence[Any]) -> Any:
        """Return a token for an op that is about to run; its inputs may be tensors or other values."""

    def end_op(self, token: Any, outputs: Sequence[Any], error: BaseException | None) -> None:
        """Handle that the op has returned these outputs, or raised an error."""

    def begin_layer(self, layer: Any, arguments: Sequence[Any]) -> None:
        """Handle that a Keras layer is about to be called."""

    def end_layer(self) -> None:
        """Handle that the call of the layer has ended."""

    def begin_gradient_of(self, op: str, inputs: Sequence[Any], outputs: Sequence[Any], received: Sequence[Any]) -> Any:
        """Return a token for an op whose gradient is about to be computed from `received`, those of its outputs.

        TensorFlow gives only those inputs and outputs of the op that its gradient needs.
        """

    def end_gradient_of(self, token: Any, gradients: Sequence[Any]) -> None:
        """Handle that the gradients of the op's inputs were computed; empty if that failed."""


_originals: list[tuple[Any, str, Any]] = []


def install(listener: EagerListener) -> None:
    """Send events to a listener, until `uninstall`; one listener at a time."""
    _replace(pywrap_tfe, "TFE_Py_FastPathExecute", functools.partial(_wrap_fast_path, listener))
    _replace(pywrap_tfe, "TFE_Py_Execute", functools.partial(_wrap_execute, listener))
    # Layers call the method of their base class, inside of what leaves Keras's own frames out of tracebacks.
    _replace(keras.Operation, "__call__", functools.partial(_wrap_layer, listener))
    pywrap_tfe.TFE_Py_RegisterGradientFunction(_wrap_gradient_function(listener, backprop._gradient_function))


def uninstall() -> None:
    """Send no more events."""
    while _originals:
        owner, name, original = _originals.pop()
        setattr(owner, name, original)
    pywrap_tfe.TFE_Py_RegisterGradientFunction(backprop._gradient_function)


def hook_updates(begin_update: Callable[[], EndCall | None]) -> None:
    """Call a function when a Keras optimizer is about to update variables, and what it returns when it has."""
    optimizer: Any = keras.optimizers.Optimizer
    optimizer.apply = _wrap_update(begin_update, optimizer.apply)


def tape_is_recording() -> bool:
    """Whether a gradient tape records the ops of this thread."""
    return not pywrap_tfe.TFE_Py_TapeSetIsEmpty()


def _replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    _originals.append((owner, name, original))
    setattr(owner, name, wrap(original))


def _hide(wrapper: Any, original: Any) -> Any:
    """Give a wrapper a file name of TensorFlow or Keras, which both leave out of tracebacks."""
    code = getattr(original, "__code__", None)
    filename = pywrap_tfe.__file__ if code is None else code.co_filename
    wrapper.__code__ = wrapper.__code__.replace(co_filename=filename)
    return functools.wraps(original)(wrapper)


def _wrap_fast_path(listener: EagerListener, original: Any) -> Any:
    def execute_fast(context: Any, op: str, name: Any, *values: Any) -> Any:
        token = listener.begin_op(op, tuple(_inputs(values)))
        try:
            result = original(context, op, name, *values)
        except BaseException as error:
            listener.end_op(token, (), error)
            raise
        listener.end_op(token, result if isinstance(result, (list, tuple)) else (result,), None)
        return result

    return _hide(execute_fast, original)


def _inputs(values: Sequence[Any]) -> Iterator[Any]:
    """Yield the inputs among the values that an op is called with: attributes follow them, each after its name."""
    for value in values:
        if isinstance(value, str):
            return
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def _wrap_execute(listener: EagerListener, original: Any) -> Any:
    def execute(context: Any, device: Any, op: Any, inputs: Any, *more: Any) -> Any:
        token = listener.begin_op(op.decode() if isinstance(op, bytes) else str(op), inputs)
        try:
            result = original(context, device, op, inputs, *more)
        except BaseException as error:
            listener.end_op(token, (), error)
            raise
        listener.end_op(token, result or (), None)
        return result

    return _hide(execute, original)


def _wrap_layer(listener: EagerListener, original: Any) -> Any:
    def __call__(self: Any, *arguments: Any, **keywords: Any) -> Any:  # noqa: N807
        if not isinstance(self, keras.Layer):
            return original(self, *arguments, **keywords)
        listener.begin_layer(self, arguments)
        try:
            return original(self, *arguments, **keywords)
        finally:
            listener.end_layer()

    return _hide(__call__, original)


def _wrap_gradient_function(listener: EagerListener, original: Any) -> Any:
    def gradient_function(op: Any, attributes: Any, count: Any, inputs: Any, outputs: Any, *more: Any) -> Any:
        token = listener.begin_gradient_of(op, inputs or (), outputs or (), more[0])
        gradients: Any = ()
        try:
            gradients = original(op, attributes, count, inputs, outputs, *more)
        finally:
            listener.end_gradient_of(token, gradients if isinstance(gradients, (list, tuple)) else (gradients,))
        return gradients

    return _hide(gradient_function, original)


def _wrap_update(begin_update: Callable[[], EndCall | None], original: Any) -> Any:
    def apply(self: Any, *arguments: Any, **keywords: Any) -> Any:
        with WatchedCall([begin_update()]):
            return original(self, *arguments, **keywords)

    return _hide(apply, original)
