"""The layers that compute other results from micro-batches than from the whole batch.

For Keras's layers this is known: BatchNormalization normalizes by the mean and variance of the rows it is given, MixUp
and CutMix mix rows, SpectralNormalization updates its estimate of the norm at each call. For other code, a trace of the
forward pass shows ops that combine rows, and ops that change a variable, which would run once for each micro-batch.
Layers of a model that cannot be traced are named as well.
"""

from __future__ import annotations

from typing import Any

import keras

from lowtide.errors import LowtideError
from lowtide.tf.microbatch.loss_reductions import LossTrace
from lowtide.tf.trace.keras_models import candidate_specs
from lowtide.tide.layers import find_layer

_CROSS_ROW_LAYERS = ("BatchNormalization", "MixUp", "CutMix", "SpectralNormalization")


def changes_statistics(model: keras.Model, *specs: Any) -> list[str]:
    """Return the layers whose results change with micro-batches by more than rounding; none for most models.

    `specs` describe a batch, if the model does not know its inputs.
    """
    layers = [layer for layer in model._flatten_layers() if not isinstance(layer, keras.layers.InputLayer)]
    known = [layer.name for layer in layers if _is_from_keras(layer) and _combines_rows(layer)]
    others = [layer for layer in layers if not _is_from_keras(layer)]
    return known + _find_in_trace(model, specs, others) if others else known


def draws_random_numbers(model: keras.Model) -> list[str]:
    """Return the layers that draw random numbers: others for micro-batches than for the whole batch."""
    found = []
    for layer in model._flatten_layers():
        rates = [getattr(layer, name) for name in ("rate", "dropout", "recurrent_dropout") if hasattr(layer, name)]
        draws = any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values())
        if draws and (any(rates) or not rates):
            found.append(layer.name)
    return found


def micro_batch_notes(model: keras.Model, count: int) -> list[str]:
    """Return what a reader of a plan with `count` micro-batches should know."""
    notes = [f"gradients are summed over {count} micro-batches of each batch: the same up to rounding"]
    layers = model._flatten_layers()
    if any(isinstance(layer, keras.layers.BatchNormalization) and _combines_rows(layer) for layer in layers):
        notes.append(
            f"BatchNormalization normalizes each micro-batch by itself, and updates its moving averages {count} times "
            "a step"
        )
    if draws_random_numbers(model):
        notes.append(
            "layers that draw random numbers, such as Dropout, draw others for micro-batches than for the whole batch"
        )
    return notes


def _combines_rows(layer: Any) -> bool:
    # A layer that is not trained normalizes by its moving averages.
    return type(layer).__name__ in _CROSS_ROW_LAYERS and bool(layer.trainable)


def _is_from_keras(layer: Any) -> bool:
    """Whether the layer's computation is known; that of a Lambda or a subclassed model is the user's own code."""
    return type(layer).__module__.startswith("keras.") and type(layer).__name__ != "Lambda"


def _find_in_trace(model: keras.Model, specs: tuple[Any, ...], others: list[Any]) -> list[str]:
    traced = _trace_loss(model, specs)
    if traced is None:
        return [f"{layer.name} (it cannot be traced)" for layer in others]
    names = {layer.name for layer in others}
    all_names = {layer.name for layer in model._flatten_layers()}
    ops = [*traced.cross_row_ops, *traced.assign_ops]
    found = (find_layer(op.name, all_names) or model.name for op in ops)
    return list(dict.fromkeys(name for name in found if name in names))


def _trace_loss(model: keras.Model, specs: tuple[Any, ...]) -> LossTrace | None:
    try:
        candidates = candidate_specs(model, specs)
    except LowtideError:
        return None
    for data in candidates:
        try:
            return LossTrace(model).trace(*data, *[None] * (3 - len(data)))
        # A model may run any code, and the shapes of its targets are a guess.
        except Exception:
            continue
    return None
