"""A compiled Keras model as a step: the function that `fit` runs for one batch, and the specs of that batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.tf.trace.specs import HOW_TO_GIVE_SPECS, Specs, tensor_specs


def check_compiled(model: keras.Model) -> None:
    """Raise an error for a model without an optimizer and a loss."""
    if not model.compiled:
        raise LowtideError(
            "the model is not compiled",
            given=model.name,
            cure="call model.compile(optimizer=..., loss=...) first: the optimizer and the loss are part of the step",
        )


def candidate_specs(model: keras.Model, specs: Specs) -> list[Specs]:
    """Return the specs of a batch to try, in order: a model does not know the shapes of its targets."""
    check_compiled(model)
    if not specs:
        return _candidate_specs(model)
    if type(model).train_step is keras.Model.train_step:
        if len(specs) == 1 and model.loss is not None:
            cure = "pass x and y as two arguments, or a dataset that yields (x, y)"
            command_line_cure = "return (model, x, y) with a spec or an array for each"
            problem = "the model's loss needs targets"
            raise LowtideError(problem, given="its inputs alone", cure=cure, command_line_cure=command_line_cure)
        if len(specs) > _MOST_PARTS:
            cure = "pass several inputs as one list or dictionary, and several targets too"
            raise LowtideError("a model takes x, y and sample_weight", given=f"{len(specs)} arguments", cure=cure)
    _check_batched(model, specs[0])
    return [tuple(specs)]


# x, y and sample_weight.
_MOST_PARTS = 3


def _check_batched(model: keras.Model, given: Any) -> None:
    """Raise an error for inputs that are single examples: a dataset that was not batched yields them."""
    try:
        inputs = [tuple(tensor.shape) for tensor in keras.tree.flatten(model.inputs)]
    except (AttributeError, ValueError):
        return
    shapes = [tf.TensorShape(getattr(spec, "shape", None)) for spec in tf.nest.flatten(given)]
    if len(shapes) != len(inputs):
        return
    for shape, expected in zip(shapes, inputs, strict=True):
        # Keras adds the last dimension to a batch of numbers where the model's input has one number per example.
        if shape.rank != len(expected) - 1 or expected[1:] == (1,) or not shape.is_compatible_with(expected[1:]):
            return
    shown = ", ".join(str(tuple(shape)) for shape in shapes)
    cure = "call .batch(32) on the dataset, or pass arrays with one row per example"
    raise LowtideError("the inputs are one example, not a batch", given=shown, cure=cure)


def check_rows(specs: Specs) -> None:
    """Raise an error for a batch without rows."""
    shapes = [tuple(spec.shape) for spec in tensor_specs(specs) if spec.shape.rank]
    if any(shape[0] == 0 for shape in shapes):
        cure = "pass arrays with at least one row, or batch_size="
        command_line_cure = "return arrays with at least one row, or add --batch-size"
        shown = ", ".join(map(str, shapes))
        raise LowtideError("a batch has no rows", given=shown, cure=cure, command_line_cure=command_line_cure)


def train_function(model: keras.Model, train_step: Callable[[Any], Any] | None = None) -> Any:
    """Return the function that `fit` runs for one batch, built as Keras's TensorFlow trainer builds it.

    `fit` calls the step from a function that draws the batch. Inlining that call determines the order of the nodes, and
    with it which of two gradients waits for the other. A compiled step is compiled by itself. `train_step` replaces
    the one of the model.
    """

    def one_step(*data: Any) -> Any:
        # A dataset of inputs alone yields x itself, not a tuple.
        return model.distribute_strategy.run(train_step or model.train_step, args=(data if len(data) > 1 else data[0],))

    step = tf.function(one_step, autograph=False, reduce_retracing=True, jit_compile=bool(model.jit_compile))
    if model.jit_compile:
        return step
    return tf.function(lambda *data: step(*data), autograph=False)


def steps_per_call(model: keras.Model | None) -> int:
    """Return how many steps one call of the function in `fit` runs; the peak of a single one is not observable."""
    return max(int(getattr(model, "steps_per_execution", None) or 1), 1)


def fingerprint(model: keras.Model, specs: Specs) -> tuple[Any, ...]:
    """Return everything that a trace of a model depends on besides the batch size."""
    return (
        repr(specs),
        id(model.optimizer),
        id(model.loss),
        tuple(id(variable) for variable in model.trainable_variables),
        getattr(model.train_step, "__func__", model.train_step),
        tuple(layer.dtype_policy.name for layer in model._flatten_layers()),
        model.jit_compile,
        steps_per_call(model),
    )


def prepare(model: keras.Model, specs: Specs) -> None:
    """Create the variables that `fit` would create before its first step: optimizer slots and metrics."""
    batch = tf.nest.map_structure(lambda spec: keras.KerasTensor(tuple(spec.shape), dtype=spec.dtype.name), specs)
    # A model with its own train_step may have no loss to build. If something is wrong, tracing raises the error.
    with contextlib.suppress(Exception):
        model._symbolic_build(data_batch=batch if len(batch) > 1 else batch[0])
    if model.optimizer is not None and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _candidate_specs(model: keras.Model) -> list[Specs]:
    inputs = _input_specs(model)
    targets = _target_specs(model)
    if targets is None:
        return [(inputs,)]
    return [(inputs,), (inputs, targets)] if model.loss is None else [(inputs, targets), (inputs,)]


def _input_specs(model: keras.Model) -> Any:
    try:
        struct = model._inputs_struct if hasattr(model, "_inputs_struct") else model.inputs
        inputs = model.input if struct is None else struct
    except (AttributeError, ValueError):
        inputs = None
    if inputs is None or (isinstance(inputs, (list, tuple)) and not inputs):
        raise LowtideError(
            "the model has not seen an input yet, so its shapes are not known",
            given=model.name,
            **HOW_TO_GIVE_SPECS,
        )
    specs = keras.tree.map_structure(lambda tensor: _spec(tensor.shape, tensor.dtype), inputs)
    return specs[0] if isinstance(specs, list) and len(specs) == 1 else specs


def _spec(shape: Sequence[int | None], dtype: str) -> tf.TensorSpec:
    return tf.TensorSpec((None, *shape[1:]), tf.as_dtype(dtype))


def _target_specs(model: keras.Model) -> Any:
    """Return one target per output, of the shape that the loss compares the output with."""
    try:
        outputs = model._outputs_struct if hasattr(model, "_outputs_struct") else model.outputs
    except AttributeError:
        return None
    if outputs is None:
        return None
    flat = keras.tree.flatten(outputs)
    losses = _flat_losses(model, outputs, flat)
    if losses is None:
        return None
    specs = [_target(output, loss) for output, loss in zip(flat, losses, strict=True)]
    packed = keras.tree.pack_sequence_as(outputs, specs)
    return packed[0] if isinstance(packed, list) and len(packed) == 1 else packed


def _flat_losses(model: keras.Model, outputs: Any, flat: list[Any]) -> list[Any] | None:
    loss = model.loss
    if loss is None:
        return [None] * len(flat)
    if isinstance(loss, dict):
        names = getattr(model, "output_names", None)
        if isinstance(outputs, dict):
            # Flattened like the outputs themselves, whose keys Keras sorts.
            names = keras.tree.flatten({name: name for name in outputs})
        return None if names is None else [loss.get(name) for name in names]
    if isinstance(loss, (list, tuple)):
        return list(loss) if len(loss) == len(flat) else None
    return [loss] * len(flat)


def _target(output: Any, loss: Any) -> tf.TensorSpec:
    name = loss if isinstance(loss, str) else getattr(loss, "name", None) or getattr(loss, "__name__", "")
    if "sparse" in str(name):
        return tf.TensorSpec((None, *output.shape[1:-1]), tf.int32)
    return tf.TensorSpec((None, *output.shape[1:]), tf.float32)


def _owned_variables(owners: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the Keras variables of layers and optimizers, each with its kind."""
    for owner in owners:
        kind = "optimizer" if isinstance(owner, keras.optimizers.Optimizer) else "weights"
        yield from ((kind, variable) for variable in owner.variables)
        if isinstance(owner, keras.Model):
            yield from (("other", variable) for variable in owner.metrics_variables)


def variable_kinds(owners: Sequence[Any], variables: Sequence[Any]) -> dict[int, tuple[str, str]]:
    """Return kind and name of each variable by the identity of its handle; owners are layers and optimizers."""
    kinds = {id(variable.value.handle): (kind, variable.path) for kind, variable in _owned_variables(owners)}
    for variable in variables:
        kinds.setdefault(id(variable.handle), guess_variable(variable))
    return kinds


# Words in the names of optimizer state, in the paths of Keras 3 and the names of TensorFlow.
_SLOT_WORDS = (
    "momentum", "velocity", "accumulator", "adam", "sgd", "rmsprop", "adagrad", "adadelta", "adafactor", "lion",
    "nadam", "ftrl", "lamb", "muon", "optimizer", "learning_rate", "iteration",
)  # fmt: skip


def guess_variable(variable: Any) -> tuple[str, str]:
    """Guess the kind of a variable that no Keras object owns, from its name; return kind and name."""
    name = variable.name.partition(":")[0]
    if variable.trainable:
        return "weights", name
    if any(word in name.lower() for word in _SLOT_WORDS):
        return "optimizer", name
    return ("weights" if variable.shape.rank else "other"), name


def layer_names(owners: Sequence[Any]) -> frozenset[str]:
    """Return the names of all layers of the owners."""
    layers = [owner for owner in owners if isinstance(owner, keras.Layer)]
    return frozenset(layer.name for owner in layers for layer in owner._flatten_layers())


def owners_of(model: keras.Model) -> list[Any]:
    """Return the model and its optimizer: the objects that own its variables."""
    return [model] if model.optimizer is None else [model, model.optimizer]


def untouched_variables(concrete: Any, model: keras.Model | None) -> list[tuple[str, str, int, tuple[int, ...]]]:
    """Return the variables of a model that the step does not use: kind, name, dtype, shape."""
    if model is None:
        return []
    captured = {id(handle) for handle in concrete.captured_inputs}
    found: dict[int, tuple[str, str, int, tuple[int, ...]]] = {}
    for kind, variable in _owned_variables(owners_of(model)):
        value = variable.value
        if id(value.handle) not in captured:
            found.setdefault(id(value), (kind, variable.path, value.dtype.as_datatype_enum, tuple(value.shape)))
    return list(found.values())
