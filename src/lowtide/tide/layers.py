"""Finds the Keras layer of a node or a variable by its name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_BACKWARD = "gradient_tape/"


def find_layer(name: str, layers: Collection[str]) -> str | None:
    """Return the layer that a TensorFlow node belongs to: the innermost part of its path that is one of `layers`.

    Keras enters the scope of a layer once to check whether it is built and again to call it, and TensorFlow numbers
    repeated scopes: the ops of "dense" are in "dense_1", those of "dense_1" in "dense_1_1" or "dense_1_2". So the name
    without its number is tried first. Without `layers`, return the path without the op.
    """
    path = name.split(_BACKWARD)[-1].split("/")[:-1]
    if not layers:
        return "/".join(path) or None
    for part in reversed(path):
        for candidate in (without_number(part), part, without_number(without_number(part))):
            if candidate in layers:
                return candidate
    return None


def find_variable_layer(path: str, layers: Collection[str]) -> str | None:
    """Return the layer that a weight belongs to; the paths of variables contain unchanged layer names."""
    above = path.split("/")[:-1]
    if not layers:
        return "/".join(above) or None
    return next((part for part in reversed(above) if part in layers), None)


def find_variable_layers(variables: Iterable[tuple[str, str]], layers: Collection[str]) -> dict[str, str | None]:
    """Return the layer of each variable by its path; variables are given as kind and path."""
    rows = list(variables)
    weights, slots = ([path for kind, path in rows if kind == each] for each in ("weights", "optimizer"))
    found = {path: find_variable_layer(path, layers) for kind, path in rows if kind != "optimizer"}
    return found | find_slot_layers(slots, weights, layers)


def find_slot_layers(slots: Iterable[str], weights: Iterable[str], layers: Collection[str]) -> dict[str, str]:
    """Return the layers of an optimizer's slot variables.

    Keras names a slot after the weight's path with underscores: "adam/tower_dense_kernel_momentum" belongs to
    "tower/dense/kernel". Several paths may match, and the longest is right.
    """
    layer_of = {path.replace("/", "_"): find_variable_layer(path, layers) for path in weights}
    found = {}
    for slot in slots:
        stem = slot.partition("/")[2]
        while stem and stem not in layer_of:
            stem = stem.rpartition("_")[0]
        layer = layer_of.get(stem)
        if layer is not None:
            found[slot] = layer
    return found


def without_number(part: str) -> str:
    """Return a part of a path without the number that TensorFlow adds to repeated scopes."""
    return re.sub(r"_\d+$", "", part)


def traced_node(name: str, op: str) -> tuple[str, str]:
    """Return the name and op of the traced node behind a node of the executed graph.

    Grappler's memory optimizer replaces a sum by a temporary variable and its updates: `AddN_5/tmp_var_zeros`.
    """
    traced = re.sub(r"/tmp_var(_\w+)?$", "", name)
    return (name, op) if traced == name else (traced, "AddN")
