"""A compiled Keras model as a step: the function that `fit` runs for one batch, and the specs of that batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from lowtide.errors import LowtideError

Specs = tuple[Any, ...]


def candidate_specs(model: keras.Model, specs: Specs) -> list[Specs]:
    """The specs of a batch to try, in this order: a model does not say what its targets look like."""
    if not model.compiled:
        raise LowtideError(
            "the model is not compiled",
            given=model.name,
            cure="call model.compile(optimizer=..., loss=...) first: the optimizer and the loss are part of the step",
        )
    return [tuple(specs)] if specs else _candidate_specs(model)


def train_step_of(model: keras.Model, train_step: Callable[[Any], Any] | None = None) -> Any:
    """The function that `fit` runs for one batch, built as Keras's TensorFlow trainer builds it.

    `fit` calls the step from a function that draws the batch; inlining it decides the order of the nodes, and with
    it which of two gradients waits for the other. A compiled step is compiled by itself. Another `train_step` takes the
    place of the model's own.
    """

    def one_step(*data: Any) -> Any:
        # A data set of inputs alone yields x itself, not a tuple.
        return model.distribute_strategy.run(train_step or model.train_step, args=(data if len(data) > 1 else data[0],))

    step = tf.function(one_step, autograph=False, reduce_retracing=True, jit_compile=bool(model.jit_compile))
    if model.jit_compile:
        return step
    return tf.function(lambda *data: step(*data), autograph=False)


def steps_together(model: keras.Model | None) -> int:
    """How many steps one call of `fit`'s function runs: nobody sees the peak of one of them."""
    return max(int(getattr(model, "steps_per_execution", None) or 1), 1)


def fingerprint(model: keras.Model, specs: Specs) -> tuple[Any, ...]:
    """What a trace of a model depends on: when any of it changes, it is traced again."""
    return (
        repr(specs),
        id(model.optimizer),
        id(model.loss),
        tuple(id(variable) for variable in model.trainable_variables),
        getattr(model.train_step, "__func__", model.train_step),
        tuple(layer.dtype_policy.name for layer in model._flatten_layers()),
        model.jit_compile,
        steps_together(model),
    )


def prepare(model: keras.Model, specs: Specs) -> None:
    """Create the variables that `fit` would create before its first step: optimizer slots and metrics."""
    batch = tf.nest.map_structure(lambda spec: keras.KerasTensor(_keras_shape(spec), dtype=spec.dtype.name), specs)
    # A model whose own train_step does the work has no loss to build; tracing will tell if anything is wrong.
    with contextlib.suppress(Exception):
        model._symbolic_build(data_batch=batch if len(batch) > 1 else batch[0])
    if model.optimizer is not None and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _keras_shape(spec: Any) -> tuple[int | None, ...]:
    return tuple(spec.shape)


def _candidate_specs(model: keras.Model) -> list[Specs]:
    inputs = _input_specs(model)
    targets = _target_specs(model)
    candidates: list[Specs] = []
    if targets is not None:
        candidates.append((inputs, targets))
    if model.loss is None or targets is None:
        candidates.insert(0, (inputs,))
    else:
        candidates.append((inputs,))
    return candidates


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
            cure="pass the specs too: predict(model, x_spec, y_spec, batch_size=...)",
        )
    specs = keras.tree.map_structure(lambda tensor: _spec(tensor.shape, tensor.dtype), inputs)
    return specs[0] if isinstance(specs, list) and len(specs) == 1 else specs


def _spec(shape: Sequence[int | None], dtype: str) -> tf.TensorSpec:
    return tf.TensorSpec((None, *shape[1:]), tf.as_dtype(dtype))


def _target_specs(model: keras.Model) -> Any:
    """One target per output: what its loss compares the output with."""
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
        names = list(outputs) if isinstance(outputs, dict) else getattr(model, "output_names", None)
        return None if names is None else [loss.get(name) for name in names]
    if isinstance(loss, (list, tuple)):
        return list(loss) if len(loss) == len(flat) else None
    return [loss] * len(flat)


def _target(output: Any, loss: Any) -> tf.TensorSpec:
    name = loss if isinstance(loss, str) else getattr(loss, "name", None) or getattr(loss, "__name__", "")
    if "sparse" in str(name):
        return tf.TensorSpec((None, *output.shape[1:-1]), tf.int32)
    return tf.TensorSpec((None, *output.shape[1:]), tf.float32)


def variable_kinds(owners: Sequence[Any], variables: Sequence[Any]) -> dict[int, tuple[str, str]]:
    """Kind and name of each variable, by the identity of its handle. Owners are Keras models, layers and optimizers."""
    kinds: dict[int, tuple[str, str]] = {}
    for owner in owners:
        groups = [("optimizer" if isinstance(owner, keras.optimizers.Optimizer) else "weights", owner.variables)]
        if isinstance(owner, keras.Model):
            groups.append(("other", owner.metrics_variables))
        for kind, members in groups:
            for variable in members:
                kinds[_handle_key(variable.value)] = (kind, variable.path)
    for variable in variables:
        kinds.setdefault(_handle_key(variable), _guess(variable))
    return kinds


def _handle_key(variable: Any) -> int:
    return id(variable.handle)


# What optimizers call their state, in Keras 3's paths and TensorFlow's own names.
_SLOT_WORDS = (
    "momentum", "velocity", "accumulator", "adam", "sgd", "rmsprop", "adagrad", "adadelta", "adafactor", "lion",
    "nadam", "ftrl", "lamb", "muon", "optimizer", "learning_rate", "iteration",
)  # fmt: skip


def _guess(variable: Any) -> tuple[str, str]:
    name = variable.name.partition(":")[0]
    if variable.trainable:
        return "weights", name
    if any(word in name.lower() for word in _SLOT_WORDS):
        return "optimizer", name
    return ("weights" if variable.shape.rank else "other"), name


def layer_names(owners: Sequence[Any]) -> frozenset[str]:
    layers = [owner for owner in owners if isinstance(owner, keras.Layer)]
    return frozenset(layer.name for owner in layers for layer in owner._flatten_layers())


def owners_of(model: keras.Model) -> list[Any]:
    """The model and its optimizer."""
    return [model] if model.optimizer is None else [model, model.optimizer]


def variables_outside(concrete: Any, model: keras.Model | None) -> list[tuple[str, str, int, tuple[int, ...]]]:
    """Variables of the model that the step does not touch still take their memory."""
    if model is None:
        return []
    captured = {id(handle) for handle in concrete.captured_inputs}
    found = []
    groups = [("weights", model.variables), ("other", model.metrics_variables)]
    if model.optimizer is not None:
        groups.append(("optimizer", model.optimizer.variables))
    seen: set[int] = set()
    for kind, variables in groups:
        for variable in variables:
            value = variable.value
            if id(value.handle) not in captured and id(value) not in seen:
                seen.add(id(value))
                found.append((kind, variable.path, value.dtype.as_datatype_enum, tuple(value.shape)))
    return found
