"""Which layers give other results over pieces of a batch than over the whole.

Of Keras's own layers it is known: BatchNormalization normalizes by the mean and variance of the rows it is given, MixUp
and CutMix mix rows, SpectralNormalization takes a step towards its norm at each call. Of other code the graph tells: a
trace of the forward pass, where an op is seen that brings rows together, or one that changes a variable and so would do
it once for each piece. What cannot be traced is named as well.
"""

from __future__ import annotations

from typing import Any

import keras

from lowtide.errors import LowtideError
from lowtide.tf.microbatch.loss_reductions import Survey
from lowtide.tf.trace.keras_models import candidate_specs
from lowtide.tide.layers import find_layer

_MIXING = ("BatchNormalization", "MixUp", "CutMix", "SpectralNormalization")


def changes_statistics(model: keras.Model, *specs: Any) -> list[str]:
    """The layers by which a step over pieces gives other results than rounding would; none for most models.

    `specs` are those of a batch, where the model does not know its inputs.
    """
    layers = [layer for layer in model._flatten_layers() if not isinstance(layer, keras.layers.InputLayer)]
    known = [layer.name for layer in layers if _is_of_keras(layer) and _mixes(layer)]
    others = [layer for layer in layers if not _is_of_keras(layer)]
    return known + _seen_to_mix(model, specs, others) if others else known


def draws_at_random(model: keras.Model) -> list[str]:
    """The layers that draw other random numbers for pieces than for the whole batch; not that any are better."""
    found = []
    for layer in model._flatten_layers():
        chances = [getattr(layer, name) for name in ("rate", "dropout", "recurrent_dropout") if hasattr(layer, name)]
        draws = any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values())
        if draws and (any(chances) or not chances):
            found.append(layer.name)
    return found


def notes_on_pieces(model: keras.Model, pieces: int) -> list[str]:
    """What a reader of a plan with this many pieces should know."""
    notes = [f"gradients are sums over {pieces} pieces of each batch: equal to those of the batch but for rounding"]
    if any(isinstance(layer, keras.layers.BatchNormalization) and _mixes(layer) for layer in model._flatten_layers()):
        notes.append(
            f"BatchNormalization normalizes each piece by itself, and updates its moving averages {pieces} times a step"
        )
    if draws_at_random(model):
        notes.append(
            "layers that draw at random, such as Dropout, draw for each piece: other numbers than for the batch"
        )
    return notes


def _mixes(layer: Any) -> bool:
    # A layer that is not trained normalizes by its moving averages.
    return type(layer).__name__ in _MIXING and bool(layer.trainable)


def _is_of_keras(layer: Any) -> bool:
    """Whether what it does is known. A Lambda does what its author wrote, and so does a subclassed model."""
    return type(layer).__module__.startswith("keras.") and type(layer).__name__ != "Lambda"


def _seen_to_mix(model: keras.Model, specs: tuple[Any, ...], others: list[Any]) -> list[str]:
    survey = _survey(model, specs)
    if survey is None:
        return [f"{layer.name} (it cannot be looked into)" for layer in others]
    names = {layer.name for layer in others}
    everything = {layer.name for layer in model._flatten_layers()}
    found = (find_layer(op.name, everything) or model.name for op in [*survey.mixing, *survey.writing])
    return list(dict.fromkeys(name for name in found if name in names))


def _survey(model: keras.Model, specs: tuple[Any, ...]) -> Survey | None:
    try:
        candidates = candidate_specs(model, specs)
    except LowtideError:
        return None
    for data in candidates:
        try:
            return Survey(model).of(*data, *[None] * (3 - len(data)))
        # Any code may be in a model, and what its targets look like is a guess.
        except Exception:
            continue
    return None
