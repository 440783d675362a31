"""Lets every `fit` of a Keras model look for the run that it belongs to.

Keras has no hook before `fit` reads its data, so the method is wrapped. This module is imported while Keras itself is
being imported, and therefore imports nothing of Keras.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any

from lowtide.run.startup.sitecustomize import AfterImport

# The module of Keras with the class `Model`.
_MODELS = "keras.models"

_thread = threading.local()


Run = Callable[[Callable[..., Any], Any, dict[str, Any]], Any]
"""Gets Keras's `fit`, the model and the arguments; returns `NOT_OF_A_RUN` if the call belongs to none."""
NOT_OF_A_RUN = object()


def install(load: Callable[[], Run]) -> None:
    """Wrap `fit` now, or as soon as Keras is imported; `load` is called for each `fit`, when Keras is there."""
    if hasattr(sys.modules.get(_MODELS), "Model"):
        _wrap_fit(load)
    else:
        AfterImport(_MODELS, lambda: _wrap_fit(load)).install()


def _wrap_fit(load: Callable[[], Run]) -> None:
    model: Any = sys.modules[_MODELS].Model
    trainer = next(base for base in model.__mro__ if "fit" in vars(base))
    original = trainer.fit
    if getattr(original, "looks_for_a_run", False):
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def fit(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if getattr(_thread, "is_fitting", False):
            # A callback or a step fits another model.
            return original(self, *arguments, **keywords)
        given = signature.bind(self, *arguments, **keywords)
        given.apply_defaults()
        _thread.is_fitting = True
        try:
            result = load()(original, self, {name: value for name, value in given.arguments.items() if name != "self"})
        finally:
            _thread.is_fitting = False
        return original(self, *arguments, **keywords) if result is NOT_OF_A_RUN else result

    fit.looks_for_a_run = True  # type: ignore[attr-defined]
    trainer.fit = fit
