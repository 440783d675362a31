"""Memory settings have an effect only before TensorFlow uses its devices for the first time.

The first tensor, variable, dataset, optimizer or model sets up the devices. After that
`tf.config.experimental.set_memory_growth`, `set_logical_device_configuration` and `set_visible_devices` raise
`RuntimeError` (where there is a GPU), and the environment variables `TF_FORCE_GPU_ALLOW_GROWTH`, `TF_GPU_ALLOCATOR` and
`CUDA_VISIBLE_DEVICES` are ignored without a word: the process has reserved nearly all memory of the GPU by then.

Setting these variables between `import tensorflow` and the first use is not too late, and not reported: they are read
when the devices are set up. `CUDA_VISIBLE_DEVICES` is read a little earlier, by `tf.config.list_physical_devices`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.steps import own_nodes
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_SETTINGS = (
    "tensorflow.config.experimental.set_memory_growth", "tensorflow.config.set_logical_device_configuration",
    "tensorflow.config.experimental.set_virtual_device_configuration", "tensorflow.config.set_visible_devices",
    "tensorflow.config.experimental.set_visible_devices",
)  # fmt: skip
_VARIABLES = ("TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR", "CUDA_VISIBLE_DEVICES")
# Calls that set up the devices, in TensorFlow 2.21.
_USES = (
    "tensorflow.constant", "tensorflow.Variable", "tensorflow.zeros", "tensorflow.ones", "tensorflow.convert_to_tensor",
    "tensorflow.range", "tensorflow.fill", "tensorflow.eye", "tensorflow.random.normal", "tensorflow.random.uniform",
    "tensorflow.cast", "tensorflow.matmul", "tensorflow.reshape", "tensorflow.one_hot", "tensorflow.reduce_sum",
    "tensorflow.reduce_mean", "tensorflow.distribute.MirroredStrategy", "tensorflow.config.list_logical_devices",
    "tensorflow.config.experimental.list_logical_devices", "tensorflow.data.Dataset.from_tensor_slices",
    "tensorflow.data.Dataset.range", "tensorflow.data.Dataset.from_tensors", "tensorflow.data.TFRecordDataset",
    "keras.optimizers.Adam", "keras.optimizers.SGD", "keras.optimizers.RMSprop", "keras.models.load_model",
    "keras.saving.load_model",
)  # fmt: skip
_GRAPH_MODE = ("disable_eager_execution", "disable_v2_behavior", "disable_v2_tensorshape")


def _check(module: Module) -> Iterator[Problem]:
    if any(each in module.source.text for each in _GRAPH_MODE):
        return
    settings = [*_find_settings(module)]
    if not settings:
        return
    seen: set[ast.AST] = set()
    uses = sorted(_find_uses(module), key=lambda each: each[0].lineno)
    for node, what, is_variable in settings:
        early = next((each for each in uses if _runs_before(module, each[0], node)), None)
        if early is None and what == "CUDA_VISIBLE_DEVICES":
            listed = module.calls(
                "tensorflow.config.list_physical_devices", "tensorflow.config.experimental.list_physical_devices"
            )
            early = next(
                ((each, module.short_text(each.func)) for each in listed if _runs_before(module, each, node)), None
            )
        if early is None:
            continue
        use, name = early
        if not is_variable and use in seen:
            # The first of several settings is enough.
            continue
        seen.add(use)
        effect = (
            "it is ignored, because TensorFlow has set up its devices"
            if is_variable
            else "it raises RuntimeError where there is a GPU, because TensorFlow has set up its devices"
        )
        yield Problem(
            node,
            f"{what} is set too late: {effect} at {name} in {module.line(use)}",
            "set it directly after `import tensorflow`, before the first tensor, dataset or model"
            + (", or in the shell that starts the program" if is_variable else ""),
        )


def _find_settings(module: Module) -> Iterator[tuple[ast.expr | ast.stmt, str, bool]]:
    for call in module.calls(*_SETTINGS):
        yield call, (module.name(call.func) or "").rpartition(".")[2], False
    for statement in module.nodes(ast.Assign):
        target = statement.targets[0]
        if isinstance(target, ast.Subscript) and module.name(target.value) == "os.environ":
            name = module.constant(target.slice)
            if name in _VARIABLES and not (name == "CUDA_VISIBLE_DEVICES" and _sets_back(module, statement)):
                yield statement, str(name), True
    for call in module.calls("os.putenv", "os.environ.setdefault"):
        name = module.constant(call.args[0]) if call.args else None
        if name in _VARIABLES:
            yield call, str(name), True


def _sets_back(module: Module, statement: ast.Assign) -> bool:
    """Whether a variable may be set for child processes."""
    return any(each in module.source.text for each in ("subprocess", "multiprocessing"))


def _find_uses(module: Module) -> Iterator[tuple[ast.expr, str]]:
    for call in module.calls(*_USES):
        yield call, module.short_text(call.func)
    for call, owner in module.method_calls("fit", "predict", "evaluate", "compile"):
        if module.kind(owner) == "model":
            yield call, module.short_text(call.func)


def _runs_before(module: Module, use: ast.expr, setting: ast.AST) -> bool:
    """Whether a use has surely run before a setting, in the same function or at the top level."""
    if (use.end_lineno or use.lineno) >= setting.lineno or module.is_traced(use):  # type: ignore[attr-defined]
        return False
    if module.function_around(use) is not module.function_around(setting) or module.is_in_comprehension(use):
        return False
    if module.class_around(use) is not module.class_around(setting):
        return False
    return all(
        any(each is above for each in module.scopes.ancestors(setting))
        for above in module.scopes.ancestors(use)
        if isinstance(above, (ast.If, ast.For, ast.While, ast.Try, ast.IfExp, ast.BoolOp, ast.Match, ast.Lambda))
    ) and not _are_alternatives(module, use, setting)


def _are_alternatives(module: Module, use: ast.AST, setting: ast.AST) -> bool:
    """Whether two nodes are in different branches of the same statement."""
    for above in module.scopes.ancestors(use):
        if isinstance(above, (ast.If, ast.Try, ast.Match)) and any(
            each is above for each in module.scopes.ancestors(setting)
        ):
            body = getattr(above, "body", None) or []
            inside = [any(part is node for part in own_nodes(*body)) for node in (use, setting)]
            return inside[0] != inside[1] or isinstance(above, ast.Match)
    return False


RULE = Rule("LT503", "memory settings too late", _check, __doc__)
