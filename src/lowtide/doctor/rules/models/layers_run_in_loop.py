"""A layer that is made and called on a tensor in a loop is a layer that nothing keeps.

`x = keras.layers.Dense(100)(x)` builds a model if `x` begins at `keras.Input`. If `x` is a tensor with numbers, the
layer creates its weights, computes, and is lost: the weights can neither be trained nor saved, and TensorFlow does not
return all of their memory (73 KiB were left of each layer of 64 KiB in a test). Build the model once from
`keras.Input`, and call it on batches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.steps import is_graph_mode, known_rounds
from lowtide.doctor.code.values import LAYER
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

# Layers with weights; those without are functions.
_WEIGHTS = ("Dense", "Conv", "LSTM", "GRU", "Embedding", "MultiHeadAttention", "EinsumDense", "SeparableConv")
_EAGER = (
    "tensorflow.random.",
    "tensorflow.constant",
    "tensorflow.ones",
    "tensorflow.zeros",
    "tensorflow.convert_to_tensor",
    "numpy.",
)
_FEW = 8


def _check(module: Module) -> Iterator[Problem]:
    for call in module.nodes(ast.Call):
        layer = call.func
        if not isinstance(layer, ast.Call) or not call.args or module.kind(layer) != LAYER:
            continue
        name = (module.name(layer.func) or "").rpartition(".")[2]
        loops = module.loops_around(call)
        if not loops or not name.startswith(_WEIGHTS) or module.is_traced(call) or is_graph_mode(module):
            continue
        rounds = known_rounds(module, loops[0])
        if (rounds is not None and rounds < _FEW) or not _begins_with_numbers(module, call.args[0]):
            continue
        many = f"{rounds:,} {name} layers are" if rounds else f"a {name} layer is"
        yield Problem(
            call,
            f"{many} made in this loop and called on a tensor of numbers: the weights of each are created, used once,"
            " and kept by no model",
            "build one model from keras.Input before, and call it on batches; in a loop, call layers that were made"
            " before",
        )


def _begins_with_numbers(module: Module, node: ast.expr) -> bool:
    """Whether all that a tensor may be made from are tensors of numbers."""
    if not isinstance(node, ast.Name):
        return False
    starts = []
    for binding in module.scopes.find(node):
        value = binding.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Call):
            # The output of the layer before.
            continue
        starts.append(value)
    return bool(starts) and all(
        isinstance(each, ast.Call) and (module.name(each.func) or "").startswith(_EAGER) for each in starts
    )


RULE = Rule("LT506", "layers made and run in a loop", _check, __doc__)
