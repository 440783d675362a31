"""A loop that is written by hand does not scale its loss, and float16 gradients become zero.

The smallest number of float16 is 6e-8: smaller gradients are zero, and the training stands still or diverges. Under the
policy `mixed_float16`, `model.compile` wraps the optimizer in a `LossScaleOptimizer`, and `fit` scales the loss. With
a tape of your own nothing does that:

- In a loop, wrap the optimizer: `optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)`, and call
  `tape.gradient(optimizer.scale_loss(loss), weights)`. `apply_gradients` divides by the scale.
- In a `train_step` of your own, `compile` has wrapped the optimizer, so `apply_gradients` divides by 32,768 what was
  never multiplied (with SGD the weights of a test moved by 0.00003 instead of 0.8): write
  `loss = self.optimizer.scale_loss(loss)` within the tape.

`mixed_bfloat16` has the range of float32 and needs no scaling.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.steps import own_nodes
from lowtide.doctor.code.values import MODEL
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_POLICIES = (
    "keras.mixed_precision.set_global_policy", "keras.mixed_precision.set_policy", "keras.mixed_precision.Policy",
    "keras.mixed_precision.DTypePolicy", "keras.config.set_dtype_policy", "keras.DTypePolicy",
    "keras.dtype_policies.DTypePolicy", "keras.mixed_precision.experimental.Policy",
    "keras.mixed_precision.experimental.set_policy",
)  # fmt: skip
_SCALES = re.compile(r"LossScaleOptimizer|scale_loss|get_scaled_loss|loss_scale|LossScale|enable_mixed_precision_graph")


def _check(module: Module) -> Iterator[Problem]:
    policies = [each for each in module.calls(*_POLICIES) if _is_float16(module, each)]
    if not policies or _SCALES.search(module.source.text):
        return
    for call, owner in module.method_calls("apply_gradients", "apply"):
        function = module.function_around(call)
        region = function if function is not None else module.tree
        if isinstance(region, ast.Lambda) or not _has_tape(module, region):
            continue
        set_before = [each for each in policies if _holds(module, each, function)]
        if not set_before:
            continue
        line = module.line(set_before[0])
        if _is_train_step(module, region, owner):
            yield Problem(
                call,
                f"mixed_float16 ({line}) makes compile wrap the optimizer, and apply_gradients divides by the loss"
                " scale, 32,768 at first; this train_step does not multiply the loss by it",
                "write `loss = self.optimizer.scale_loss(loss)` within the tape, before tape.gradient",
            )
        elif module.kind(owner) == "optimizer":
            yield Problem(
                call,
                f"the policy mixed_float16 ({line}) needs loss scaling, and this loop has none: gradients below"
                " 6e-8 become zero",
                "wrap the optimizer in keras.mixed_precision.LossScaleOptimizer and call tape.gradient with"
                " optimizer.scale_loss(loss); or use mixed_bfloat16",
            )


def _is_float16(module: Module, call: ast.Call) -> bool:
    given = (
        module.argument(call, 0, "policy")
        or module.argument(call, 0, "name")
        or module.argument(call, 0, "dtype_policy")
    )
    return module.constant(given) == "mixed_float16"


def _holds(module: Module, policy: ast.Call, function: ast.AST | None) -> bool:
    """Whether a policy is set for the whole program, or in the function itself, and not in another test or setup."""
    around = module.function_around(policy)
    return around is None or around is function or getattr(around, "name", "") == "main"


def _has_tape(module: Module, region: ast.AST) -> bool:
    nodes = own_nodes(*region.body)  # type: ignore[attr-defined]
    return any(isinstance(each, ast.Call) and module.name(each.func) == "tensorflow.GradientTape" for each in nodes)


def _is_train_step(module: Module, region: ast.AST, owner: ast.expr) -> bool:
    """Whether an optimizer is the one that compile gave to a model, in its train_step."""
    around = module.class_around(region)
    return (
        isinstance(region, ast.FunctionDef)
        and region.name == "train_step"
        and around is not None
        and module.values.class_kind(around) == MODEL
        and isinstance(owner, ast.Attribute)
        and owner.attr == "optimizer"
    )


RULE = Rule("LT406", "float16 without loss scaling", _check, __doc__)
