"""Set a Keras model to half precision and back, in place: its weights and its optimizer's state do not change.

Under its mixed policies Keras keeps variables in float32 and casts them as it computes, so a model changes its
precision by the policies of its layers alone. What gives the model's outputs through an activation stays in float32, as
Keras advises: a softmax over many classes needs the digits. Losses and metrics are computed in float32 in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
from keras.src.models.functional import Functional
from keras.src.saving.serialization_lib import SerializableDict
from keras.src.utils.tracking import DotNotTrackScope

from lowtide.errors import LowtideError

# What a user allows, and Keras's name for it.
POLICIES = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
_PLAIN = "float32"
_SCALED = "mixed_float16"


@dataclass(frozen=True)
class Before:
    """The state of a model before its precision was set."""

    policies: tuple[tuple[Any, Any], ...]
    optimizer: Any
    loss_scale_factor: float | None
    compile_config: Any


def set_precision(model: keras.Model, policy: str) -> Before:
    """Let a built and compiled model compute in "mixed_bfloat16" or "mixed_float16".

    Layers that have a policy of their own keep it. `restore_precision` takes what this returns.
    """
    policy = POLICIES.get(policy, policy)
    _check(model, policy)
    last = {id(layer) for layer in last_layers(model)}
    changed = [layer for layer in _layers(model) if id(layer) not in last]
    if not changed:
        raise LowtideError(
            "no layer of the model computes in float32, so its precision cannot be set", given=model.name
        )
    optimizer = model.optimizer
    before = Before(
        policies=tuple((layer, layer.dtype_policy) for layer in changed),
        optimizer=optimizer,
        loss_scale_factor=optimizer.loss_scale_factor,
        compile_config=model._compile_config,
    )
    for layer in changed:
        layer.dtype_policy = policy
    if policy == _SCALED and not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        scaling = keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale_optimizer")
        if optimizer.built:
            scaling.build(model.trainable_variables)
        # A model that is saved is compiled with this when it is loaded.
        config = SerializableDict(**{**model._compile_config.config, "optimizer": scaling})
        set_training(model, scaling, config)
    forget_functions(model)
    return before


def restore_precision(model: keras.Model, before: Before) -> None:
    """Undo `set_precision`; trained weights stay."""
    for layer, policy in before.policies:
        layer.dtype_policy = policy
    if model.optimizer is not before.optimizer:
        before.optimizer.loss_scale_factor = before.loss_scale_factor
        set_training(model, before.optimizer, before.compile_config)
    forget_functions(model)


@contextmanager
def with_precision(model: keras.Model, policy: str) -> Iterator[keras.Model]:
    """Set the precision of a model within a context."""
    before = set_precision(model, policy)
    try:
        yield model
    finally:
        restore_precision(model, before)


def last_layers(model: keras.Model) -> list[Any]:
    """Return the layers that compute the outputs with an activation, if the model shows them."""
    if isinstance(model, (keras.Sequential, Functional)) and model.outputs:
        givers = [output._keras_history.operation for output in model.outputs]
    else:
        # A subclassed model: usually a softmax comes last.
        givers = [each for each in _layers(model) if getattr(each, "activation", None) is keras.activations.softmax]
    found, linear = [], keras.activations.linear
    for giver in givers:
        if isinstance(giver, keras.Model):
            found += last_layers(giver)
        elif isinstance(giver, keras.layers.Softmax) or getattr(giver, "activation", linear) is not linear:
            found.append(giver)
    return found


def _layers(model: keras.Model) -> list[Any]:
    """Return the layers that compute in float32, except input layers; quantized layers have another policy."""
    plain = keras.DTypePolicy(_PLAIN)
    layers = model._flatten_layers()
    return [each for each in layers if each.dtype_policy == plain and not isinstance(each, keras.layers.InputLayer)]


def _check(model: keras.Model, policy: str) -> None:
    if policy not in POLICIES.values():
        raise LowtideError(
            "there is no such precision to train in", given=policy, cure=f"choose {' or '.join(POLICIES.values())}"
        )
    if not model.built or not model.compiled:
        missing = "compiled" if model.built else "built"
        raise LowtideError(
            f"the precision of a model is set when it is built and compiled, and this one is not {missing}",
            given=model.name,
            cure="call model.build(input_shape) and model.compile(...) first",
        )


def set_training(model: keras.Model, optimizer: Any, compile_config: Any = None) -> None:
    """Give a compiled model another optimizer, and what `compile` was called with if it is to be saved."""
    with DotNotTrackScope():
        model.optimizer = optimizer
        if compile_config is not None:
            model._compile_config = compile_config


def forget_functions(model: keras.Model) -> None:
    """Discard the traced functions, which compute in the previous precision."""
    model.train_function = None
    model.test_function = None
    model.predict_function = None
