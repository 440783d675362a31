"""Describes each op of a step that runs eagerly: its layer, its kind and its line of the user's program.

Nothing in a profile says which layer an eager op belongs to, so each op is described while it runs. The description has
a number, and a span of that number in the profile surrounds the op (`run.eager_ops`).

No tensor is kept: a tensor is known by the number that TensorFlow gives to each.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import keras
from tensorflow.python.framework.ops import EagerTensor
from tensorflow.python.profiler.internal import _pywrap_traceme

from lowtide.sources.profiles.xplane import EAGER_OP
from lowtide.tf.call_stack import user_line
from lowtide.tf.eager_hooks import tape_is_recording
from lowtide.tf.references.holders import address_of, tensor_bytes
from lowtide.tide.owner import Owner

# Smaller inputs of a step are not looked up.
_MIN_INPUT_BYTES = 4096
# Ops that draw a batch from a dataset: their outputs are inputs of the step.
_ITERATOR_OPS = ("IteratorGetNext", "IteratorGetNextSync", "OptionalGetValue")
# The code of TensorFlow's errors for memory that ran out.
_RESOURCE_EXHAUSTED = 8


class _RanOp(NamedTuple):
    """An op that ran: the number of its description, and the numbers of its inputs; None for one that is no tensor."""

    description: int
    inputs: tuple[int | None, ...]
    is_data: bool
    """Whether it prepared data before the forward pass."""


class _ThreadState(threading.local):
    """What this thread is doing."""

    def __init__(self) -> None:
        self.layers: list[str] = []
        self.forward: list[_RanOp | None] = []
        """The ops whose gradients are being computed, innermost last; None if an op is not known."""
        self.passes = 0
        """How many backward passes and updates of variables are running."""


def _guarded(handle: Callable[..., Any]) -> Callable[..., Any]:
    """Stop describing ops if an event cannot be handled: a failure must not change what the script does."""

    @functools.wraps(handle)
    def guarded(self: EagerStep, *arguments: Any) -> Any:
        try:
            return handle(self, *arguments)
        except Exception:
            self._is_suspended = True
            self._on_failure()
            return None

    return guarded


class EagerStep:
    """A listener that describes the ops of a window."""

    def __init__(
        self,
        on_inputs: Callable[[tuple[Owner, ...]], None],
        layer_of: Callable[[int], str | None],
        on_failure: Callable[[], None],
    ) -> None:
        """`on_inputs` is called with new inputs of the step, `layer_of` returns the layer of a variable's handle."""
        self.descriptions: dict[Owner, int] = {}
        """Op, layer, kind and line of each op, with its number."""
        self.failed: Owner | None = None
        """The op that ran out of memory."""
        self.running: Owner | None = None
        """The op that runs now: a kernel that gets no memory may end the process."""
        self.batch_size: int | None = None
        """The rows of the tensor that the step gives to its first layer."""
        self._on_inputs = on_inputs
        self._layer_of = layer_of
        self._on_failure = on_failure
        self._owners: list[Owner] = []
        self._state = _ThreadState()
        self._is_suspended = False
        self._made: dict[int, _RanOp] = {}
        """The op that made each tensor."""
        self._read: dict[tuple[str, int], _RanOp] = {}
        """The last op of each type that read a tensor."""
        self._differentiated: dict[int, int] = {}
        """The tensor whose gradient a tensor is."""
        self._inputs: set[int] = set()

    def forget_tensors(self) -> None:
        """Forget the tensors and descriptions of the last window."""
        for known in (self.descriptions, self._owners, self._made, self._read, self._differentiated, self._inputs):
            known.clear()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Describe no ops meanwhile: they are lowtide's own."""
        self._is_suspended = True
        try:
            yield
        finally:
            self._is_suspended = False

    # -- events -----------------------------------------------------------------------------------

    @_guarded
    def begin_layer(self, layer: Any, arguments: Sequence[Any]) -> None:
        self._state.layers.append(layer.name)
        if len(self._state.layers) == 1 and self.batch_size is None and tape_is_recording():
            shapes = [tuple(getattr(each, "shape", ())) for each in keras.tree.flatten(arguments)]
            self.batch_size = next((int(shape[0]) for shape in shapes if shape and shape[0]), None)

    def end_layer(self) -> None:
        # The stack is empty if a call of a layer began before the window.
        if self._state.layers:
            self._state.layers.pop()

    def begin_pass(self) -> Callable[[bool], None]:
        """Describe ops as gradients until the returned function is called."""
        self._state.passes += 1

        def end_pass(has_failed: bool) -> None:
            self._state.passes -= 1

        return end_pass

    @_guarded
    def begin_gradient_of(self, op: str, inputs: Sequence[Any], outputs: Sequence[Any], received: Sequence[Any]) -> Any:
        self._state.forward.append(None)
        self._state.forward[-1] = self._find_forward(op, inputs, outputs, received)

    @_guarded
    def end_gradient_of(self, token: Any, gradients: Sequence[Any]) -> None:
        forward = self._state.forward.pop() if self._state.forward else None
        if forward is None:
            return
        for gradient, tensor in zip(gradients, forward.inputs, strict=False):
            if type(gradient) is EagerTensor and tensor is not None:
                self._differentiated[gradient._id] = tensor

    @_guarded
    def begin_op(self, op: str, inputs: Sequence[Any]) -> Any:
        if self._is_suspended:
            return None
        numbers = tuple(each._id if type(each) is EagerTensor else None for each in inputs)
        description = self._describe(op, numbers)
        is_data = op in _ITERATOR_OPS
        if self._state.passes == 0 and not is_data:
            if tape_is_recording():
                self._find_inputs(op, inputs)
            else:
                is_data = self._owners[description].layer is None
        ran = _RanOp(description, numbers, is_data)
        self.running = self._owners[description]
        return ran, _pywrap_traceme.TraceMe(EAGER_OP, at=description)

    @_guarded
    def end_op(self, token: Any, outputs: Sequence[Any], error: BaseException | None) -> None:
        if token is None:
            return
        ran, span = token
        span.Stop()
        self.running = None
        if error is not None:
            # One of the two functions that execute ops raises the error itself, the other only its code.
            if _RESOURCE_EXHAUSTED in (getattr(error, "code", None), getattr(error, "error_code", None)):
                self.failed = self._owners[ran.description]
            return
        op = self._owners[ran.description].op or ""
        for number in ran.inputs:
            if number is not None:
                self._read[op, number] = ran
        target = self._target(ran) if self._state.passes else None
        for output in outputs:
            if type(output) is EagerTensor:
                self._made[output._id] = ran
                if target is not None:
                    self._differentiated[output._id] = target

    # -- descriptions -----------------------------------------------------------------------------

    def _describe(self, op: str, inputs: tuple[int | None, ...]) -> int:
        """Return the number of the description of an op that is about to run."""
        state = self._state
        made = [self._owners[ran.description] for each in inputs if each is not None and (ran := self._made.get(each))]
        is_backward = state.passes > 0 or any(each.kind == "gradients" for each in made)
        forward = state.forward[-1] if state.forward else None
        if forward is not None:
            about = self._owners[forward.description]
            layer, source = about.layer, about.source
        else:
            layer, source = state.layers[-1] if state.layers else None, user_line()
            if layer is None and op == "ReadVariableOp" and inputs and inputs[0] is not None:
                layer = self._layer_of(inputs[0])
            if layer is None and is_backward:
                layer = _layer_among(made)
        owner = Owner(op, op, layer, "gradients" if is_backward else "activations", source=source)
        number = self.descriptions.setdefault(owner, len(self.descriptions))
        if number == len(self._owners):
            self._owners.append(owner)
        return number

    def _find_forward(
        self, op: str, inputs: Sequence[Any], outputs: Sequence[Any], received: Sequence[Any]
    ) -> _RanOp | None:
        """Find the op whose gradient is about to be computed, by the tensors of it that TensorFlow has kept."""
        made = (self._made.get(each._id) for each in outputs if type(each) is EagerTensor)
        targets = (self._differentiated.get(each._id) for each in received if type(each) is EagerTensor)
        derived = (self._made.get(each) for each in targets if each is not None)
        read = (self._read.get((op, each._id)) for each in inputs if type(each) is EagerTensor)
        for found in (*made, *derived, *read):
            if found is not None and self._owners[found.description].op == op:
                return found
        return None

    def _target(self, ran: _RanOp) -> int | None:
        """The tensor whose gradient the output of an op is, if the op sums gradients of one tensor."""
        if self._state.forward:
            return None
        found = (self._differentiated.get(each) for each in ran.inputs if each is not None)
        return next((each for each in found if each is not None), None)

    def _find_inputs(self, op: str, tensors: Sequence[Any]) -> None:
        """Report the tensors that an op of the forward pass reads and that no op of the forward pass has made."""
        found = []
        for tensor in tensors:
            if type(tensor) is not EagerTensor or tensor._id in self._inputs:
                continue
            made = self._made.get(tensor._id)
            if (made is None or made.is_data) and tensor_bytes(tensor) >= _MIN_INPUT_BYTES:
                self._inputs.add(tensor._id)
                address = address_of(tensor)
                if address:
                    of = self._state.layers[0] if self._state.layers else op
                    shape, dtype = tuple(tensor.shape.as_list()), tensor.dtype.name
                    size = tensor_bytes(tensor)
                    found.append(Owner(f"input of {of}", None, None, "input", dtype, shape, size, address=address))
        if found:
            self._on_inputs(tuple(found))


def _layer_among(made: Sequence[Owner]) -> str | None:
    """The layer of an op of the backward pass, by its inputs: those of the forward pass are of the layer itself."""
    ordered = sorted(made, key=lambda each: each.kind == "gradients")
    return next((each.layer for each in ordered if each.layer is not None), None)
