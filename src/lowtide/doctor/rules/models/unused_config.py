"""A `ConfigProto` with memory settings has no effect unless a session is made with it.

`config.gpu_options.allow_growth = True` only changes an object. TensorFlow reads it when a `tf.compat.v1.Session` is
made with `config=config`. A program that trains with Keras or with eager execution makes no session; there the call is
`tf.config.experimental.set_memory_growth(gpu, True)`, or for a hard limit
`tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=4096)])`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_OPTIONS = ("allow_growth", "per_process_gpu_memory_fraction", "visible_device_list")
_MAKERS = ("tensorflow.ConfigProto", "tensorflow.GPUOptions")


def _check(module: Module) -> Iterator[Problem]:
    for statement in module.nodes(ast.Assign):
        target = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, ast.Name) or not isinstance(statement.value, ast.Call):
            continue
        if module.name(statement.value.func) not in _MAKERS:
            continue
        reads, options = _uses(module, target)
        given = [each.arg for each in statement.value.keywords if each.arg in (*_OPTIONS, "gpu_options")]
        if reads or not (options or given):
            continue
        setting = "gpu_options" if not options and "gpu_options" in given else (options or given)[0]
        yield Problem(
            statement,
            f"{target.id} is never given to a session, so {setting} has no effect",
            "call tf.config.experimental.set_memory_growth(gpu, True) for each of"
            " tf.config.list_physical_devices('GPU') before the first tensor or model",
        )


def _uses(module: Module, target: ast.Name) -> tuple[bool, list[str]]:
    """Return whether a configuration is read, and the memory options that are set in it."""
    options: list[str] = []
    for node in module.nodes(ast.Name):
        if node.id != target.id or not isinstance(node.ctx, ast.Load):
            continue
        last: ast.AST = node
        names: list[str] = []
        while isinstance(above := module.scopes.parent(last), ast.Attribute):
            names.append(above.attr)
            last = above
        if not names or not isinstance(last, ast.Attribute) or not isinstance(last.ctx, ast.Store):
            return True, options
        options += [each for each in names if each in _OPTIONS]
    # Another module may import it.
    is_exported = module.function_around(target) is None and not any(
        name.startswith(("tensorflow.", "keras.")) for name in _called(module)
    )
    return is_exported, options


def _called(module: Module) -> Iterator[str]:
    for call in module.calls("tensorflow.", "keras."):
        name = module.name(call.func) or ""
        if name not in _MAKERS:
            yield name


RULE = Rule("LT504", "memory options without effect", _check, __doc__)
