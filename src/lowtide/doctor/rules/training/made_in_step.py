"""Layers, optimizers and metrics that are made in every step start from nothing in every step.

Each of them creates variables: a layer its weights, an optimizer two slots for each weight, a metric its totals. In a
`tf.function` the second trace raises `tf.function only supports singleton tf.Variables created on the first call`.
Outside of one, each step pays for new variables; a new optimizer forgets its momentum, a new layer is never trained,
and TensorFlow keeps some of them: an eager step that makes an Adam for one weight of 256 KiB grows by 143 KiB.
Make them once, before the loop, or in `__init__`; call `metric.reset_state()` at the beginning of an epoch.

Layers without variables, such as `ReLU`, and losses are not reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.steps import find_batches, is_conditional, is_graph_mode, is_training, own_nodes
from lowtide.doctor.code.values import CLASS, LAYER, METRIC, MODEL, OPTIMIZER
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

# Keras's layers that have weights.
_WEIGHTS = frozenset(
    """Dense EinsumDense Embedding Conv1D Conv2D Conv3D Conv1DTranspose Conv2DTranspose Conv3DTranspose SeparableConv1D
    SeparableConv2D DepthwiseConv1D DepthwiseConv2D BatchNormalization LayerNormalization GroupNormalization
    UnitNormalization SpectralNormalization MultiHeadAttention GroupQueryAttention LSTM GRU SimpleRNN LSTMCell GRUCell
    ConvLSTM2D PReLU Convolution2D""".split()
)
_MADE = {LAYER: "layer", OPTIMIZER: "optimizer", METRIC: "metric"}
_STEPS = frozenset({"train_step", "test_step", "predict_step", "call"})


def _check(module: Module) -> Iterator[Problem]:
    for call in module.calls("keras."):
        name = (module.name(call.func) or "").rpartition(".")[2]
        value = module.value(call)
        if value is None or value.kind not in _MADE or value.origin is not call or not name[:1].isupper():
            continue
        if value.kind == LAYER and name not in _WEIGHTS:
            continue
        what = f"{_MADE[value.kind]} {name}"
        if (function := _traced_step(module, call)) is not None:
            if not is_conditional(module, call, function) and not _is_kept_once(module, call):
                yield Problem(
                    call,
                    f"the {what} is made in {function.name}, which becomes a graph: its variables are created in every"
                    " trace, and tf.function raises ValueError when it is traced again",
                    f"make the {_MADE[value.kind]} once, {_place(module, function)}, and use it here",
                )
        elif value.kind == LAYER and _is_in_batches(module, call):
            yield Problem(
                call,
                f"the {what} is made for each batch of the loop: its weights are created, used once and never trained,"
                " and TensorFlow does not return all of their memory",
                "make the layer once, before the loop",
            )
        elif value.kind == OPTIMIZER and (where := _eager_step(module, call)) is not None:
            yield Problem(
                call,
                f"the {what} is made anew {where}: its slots, two values for each weight in Adam, are created and lost"
                " each time, and it never has any momentum",
                "make the optimizer once, before the loop",
            )


def _traced_step(module: Module, call: ast.Call) -> ast.FunctionDef | None:
    """Return the function around a call that is traced, if it is one of steps."""
    function = module.function_around(call)
    if not isinstance(function, ast.FunctionDef) or module.loops_around(call):
        return None
    if module.values.is_traced_by_decorator(function):
        return function
    owner = module.scopes.parent(function)
    if isinstance(owner, ast.ClassDef) and function.name in _STEPS:
        return function if module.values.class_kind(owner) in (MODEL, LAYER) else None
    return None


def _is_in_batches(module: Module, call: ast.Call) -> bool:
    """Whether a layer is made in each round of a loop over batches."""
    loops = module.loops_around(call)
    if not loops or is_graph_mode(module) or is_conditional(module, call, loops[0]):
        return False
    if _is_trained_in(module, call, loops[0]):
        return False
    return find_batches(module, loops[0]) is not None and not _is_kept_once(module, call)


def _is_trained_in(module: Module, call: ast.Call, loop: ast.AST) -> bool:
    """Whether a loop itself trains the layer that it makes, as a new head for each task."""
    statement = module.scopes.parent(call)
    names = [each.id for each in getattr(statement, "targets", ()) if isinstance(each, ast.Name)]
    weights = ("trainable_variables", "trainable_weights", "variables", "weights")
    return any(
        isinstance(each, ast.Attribute) and each.attr in weights and isinstance(each.value, ast.Name)
        and each.value.id in names
        for each in ast.walk(loop)
    )  # fmt: skip


def _is_kept_once(module: Module, call: ast.Call) -> bool:
    """Whether a call is guarded by a test that is no `if`, as in `self.layer = self.layer or Dense(1)`."""
    return any(isinstance(each, ast.BoolOp) for each in module.scopes.ancestors(call))


def _place(module: Module, function: ast.FunctionDef) -> str:
    return "in __init__" if isinstance(module.scopes.parent(function), ast.ClassDef) else f"outside of {function.name}"


def _eager_step(module: Module, call: ast.Call) -> str | None:
    """Return where an optimizer is made in every step; None if it is made once."""
    if module.is_traced(call) or any(
        isinstance(each, (ast.Return, ast.Dict, ast.List)) for each in _near(module, call)
    ):
        return None
    statement = module.scopes.parent(call)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return None
    name = statement.targets[0].id
    loops = module.loops_around(call)
    if loops:
        # The loop must be the one of the steps, and not one over models or settings.
        loop = loops[0]
        if is_conditional(module, call, loop) or not is_training(module, loop) or not _applies(module, loop, name):
            return None
        return None if _makes_model(module, loop) else "in every step of the loop"
    function = module.function_around(call)
    if not isinstance(function, ast.FunctionDef) or not _applies(module, function, name):
        return None
    return f"in every call of {function.name}" if _is_called_in_loop(module, function) else None


def _near(module: Module, call: ast.Call) -> list[ast.AST]:
    above = module.scopes.parent(call)
    return [] if above is None else [above]


def _applies(module: Module, region: ast.AST, name: str) -> bool:
    """Whether a loop or function updates weights with an optimizer of this name in each of its rounds."""
    for node in own_nodes(*region.body):  # type: ignore[attr-defined]
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in ("apply_gradients", "apply", "minimize") and isinstance(node.func.value, ast.Name):
            loops = module.loops_around(node)
            inner = loops[0] if loops else module.function_around(node)
            if node.func.value.id == name and inner is region:
                return True
    return False


def _makes_model(module: Module, loop: ast.AST) -> bool:
    """Whether a loop makes the models that it trains."""
    nodes = own_nodes(*loop.body)  # type: ignore[attr-defined]
    return any(isinstance(each, ast.Call) and module.kind(each) in (MODEL, CLASS, "variable") for each in nodes)


def _is_called_in_loop(module: Module, function: ast.FunctionDef) -> bool:
    for call in module.nodes(ast.Call):
        value = module.value(call.func) if isinstance(call.func, ast.Name) else None
        if value is not None and value.origin is function:
            loops = module.loops_around(call)
            if loops and not _makes_model(module, loops[0]) and not _makes_model(module, function):
                return True
    return False


RULE = Rule("LT405", "variables made in every step", _check, __doc__)
