"""Functions with `jit_compile=True` that a larger, not compiled step calls.

In the executed graph such a call is one node with the attribute `_XlaMustCompile`: neither Grappler nor the runtime
looks inside. Its memory is that of the compiled module: a workspace while it runs, and its outputs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from lowtide.errors import LowtideError
from lowtide.tf.trace.xla.memory import MUST_COMPILE, XlaArgument, XlaMemory, compile_function, read_memory

_SUFFIX = "_lowtide_tensors_first"


def is_compiled_call(node: Any) -> bool:
    """Whether a NodeDef calls a function that XLA compiles as a whole."""
    return MUST_COMPILE in node.attr and bool(node.attr[MUST_COMPILE].b) and "f" in node.attr


def xla_call_memory(function: Any, inputs: Sequence[Any], library: Iterable[Any] = ()) -> XlaMemory:
    """The memory of one call of a compiled function: `workspace_bytes` while it runs, and `output_bytes`.

    `function` is the FunctionDef or the name of a function of the eager context (`node.attr["f"].func.name`).
    `inputs` follow its arguments: a TensorSpec for a tensor, the eager handle for a variable, or an eager tensor where
    the compiler needs the value, such as a shape. `library` holds FunctionDefs that it calls and the context lacks.
    """
    context.ensure_initialized()
    definition = context.context().get_function_def(function) if isinstance(function, str) else function
    if len(inputs) != len(definition.signature.input_arg):
        raise LowtideError(
            f"the function {definition.signature.name} takes {len(definition.signature.input_arg)} arguments",
            given=len(inputs),
        )
    # The compiler takes all shapes first and all eager tensors after them.
    specs = [row for row, each in enumerate(inputs) if isinstance(each, tf.TensorSpec)]
    tensors = [row for row, each in enumerate(inputs) if not isinstance(each, tf.TensorSpec)]
    ordered = reorder_arguments(definition, specs + tensors)
    started = time.perf_counter()
    with _Registered([*library, ordered]):
        data = compile_function(
            ordered.signature.name, [inputs[row] for row in specs], [inputs[row] for row in tensors]
        )
    names = [definition.signature.input_arg[row].name for row in specs + tensors]
    arguments = [_argument(name, inputs[row]) for name, row in zip(names, specs + tensors, strict=True)]
    return read_memory(data, arguments, time.perf_counter() - started)


def reorder_arguments(definition: Any, order: Sequence[int]) -> Any:
    """The same function with its arguments in another order; its body finds them by name."""
    result = type(definition)()
    result.CopyFrom(definition)
    result.signature.name = definition.signature.name + _SUFFIX
    del result.signature.input_arg[:]
    result.signature.input_arg.extend(definition.signature.input_arg[row] for row in order)
    result.arg_attr.clear()
    result.resource_arg_unique_id.clear()
    for new, old in enumerate(order):
        if old in definition.arg_attr:
            result.arg_attr[new].CopyFrom(definition.arg_attr[old])
        if old in definition.resource_arg_unique_id:
            result.resource_arg_unique_id[new] = definition.resource_arg_unique_id[old]
    return result


class _Registered:
    """Functions that the eager context knows for the time of a compilation."""

    def __init__(self, definitions: Sequence[Any]) -> None:
        self._definitions = definitions
        self._added: list[str] = []

    def __enter__(self) -> None:
        current = context.context()
        for definition in self._definitions:
            if not current.has_function(definition.signature.name):
                current.add_function_def(definition)
                self._added.append(definition.signature.name)

    def __exit__(self, *_: object) -> None:
        for name in self._added:
            context.context().remove_function(name)


def _argument(name: str, given: Any) -> XlaArgument:
    if given.dtype == tf.resource:
        data = given._handle_data.shape_and_type
        shape = tuple(dimension.size for dimension in data[0].shape.dim) if data else ()
        dtype = tf.as_dtype(data[0].dtype) if data else tf.uint8
        size = tf.TensorShape(shape).num_elements() * dtype.size if data else 0
        return XlaArgument(name, "weights", dtype.name, shape, size, True)
    shape = tuple(given.shape.as_list())
    size = given.shape.num_elements() * given.dtype.size
    return XlaArgument(name, "input", given.dtype.name, shape, size, False)
