"""Functions that were meant to save memory and do not exist any more.

| what | since | instead |
|---|---|---|
| `tf.contrib.graph_editor`, `memory_saving_gradients` | TensorFlow 2.0 has no `tf.contrib` | `lt.fit_in(model, budget=...)` or `lt.function(budget=...)` recompute activations; `lowtide graph` cuts graphs |
| `keras.backend.set_session` with a configuration | TensorFlow 2.0, Keras 2.4 | `tf.config.experimental.set_memory_growth` |
| `tensorflow_model_optimization` on a model of Keras 3 | TensorFlow 2.16 | `model.quantize("int8")`, or a `tf_keras` model |

Code for an older TensorFlow is not reported: the rule asks for a sign of TensorFlow 2 in the file.
"""  # noqa: E501

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_TENSORFLOW_2 = re.compile(
    r"compat\.v[12]\b|tf\.keras\b|tensorflow\.keras\b|tf\.data\b|GradientTape|tf\.function\b|tensorflow\.compat"
)
_TF_KERAS = re.compile(r"tf_keras|TF_USE_LEGACY_KERAS|core\.keras\.compat")
_PRUNING = "tensorflow_model_optimization.sparsity.keras.prune_low_magnitude"
_ON_MODELS = (
    _PRUNING, "tensorflow_model_optimization.clustering.keras.cluster_weights",
    "tensorflow_model_optimization.quantization.keras.quantize_model",
    "tensorflow_model_optimization.quantization.keras.quantize_annotate_model",
)  # fmt: skip


def _check(module: Module) -> Iterator[Problem]:
    text = module.source.text
    if "contrib.graph_editor" in text or "memory_saving_gradients" in text:
        yield from _check_editor(module)
    if "set_session" in text:
        yield from _check_session(module)
    if "tensorflow_model_optimization" in text and not _TF_KERAS.search(text):
        for call in module.calls(*_ON_MODELS):
            name = (module.name(call.func) or "").rpartition(".")[2]
            yield Problem(
                call,
                f"{name} does not work on the models of Keras 3, which TensorFlow has since 2.16: pruning and"
                " quantization raise, and cluster_weights returns None",
                'call model.quantize("int8") of Keras 3; or build the model with tf_keras, which'
                " tensorflow_model_optimization accepts",
            )


def _check_editor(module: Module) -> Iterator[Problem]:
    if not _TENSORFLOW_2.search(module.source.text):
        return
    for node in module.nodes(ast.Attribute):
        if module.name(node) == "tensorflow.contrib.graph_editor":
            yield Problem(
                node,
                "tf.contrib.graph_editor does not exist since TensorFlow 2.0: this line raises AttributeError",
                "`lowtide graph FILE --op MatMul --to out.svg` cuts and draws a graph; lt.function(budget=...)"
                " recomputes activations",
            )


def _check_session(module: Module) -> Iterator[Problem]:
    text = module.source.text
    if not _TENSORFLOW_2.search(text) or not re.search("allow_growth|per_process_gpu_memory_fraction", text):
        return
    for call in module.calls("keras.backend.set_session", "keras.backend.tensorflow_backend.set_session"):
        if "compat.v1" in module.text(call.func) or not _is_of_tensorflow_2(module, call):
            continue
        yield Problem(
            call,
            "keras.backend.set_session does not exist in TensorFlow 2, so its memory settings are not made: this line"
            " raises AttributeError",
            "call tf.config.experimental.set_memory_growth(gpu, True) for each of"
            " tf.config.list_physical_devices('GPU') before the first tensor or model",
        )


def _is_of_tensorflow_2(module: Module, call: ast.Call) -> bool:
    """Whether the configuration was made with the v1 names of TensorFlow 2, so that the program runs with it."""
    text = module.source.text
    return "compat.v1" in text and "import tensorflow.compat.v1" not in text and "compat.v1.keras" not in text


RULE = Rule("LT505", "functions that are gone", _check, __doc__)
