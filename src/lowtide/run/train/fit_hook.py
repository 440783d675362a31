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


_load: Callable[[], Run] | None = None


def install() -> None:
    """Wrap `fit` now, or as soon as Keras is imported; it remains Keras's own until `let_fits_belong` is called.

    This is done when lowtide is imported: in `model.fit(data, callbacks=[lt.KeepGoing(...)])` Python looks up `fit`
    before it makes the callback.
    """
    if hasattr(sys.modules.get(_MODELS), "Model"):
        _wrap_fit()
    else:
        AfterImport(_MODELS, _wrap_fit).install()


def let_fits_belong(load: Callable[[], Run]) -> None:
    """Let every `fit` look for its run; `load` is called for each, when Keras is there."""
    global _load
    _load = load


def has_inner_fit() -> bool:
    """Whether the `fit` of a run that this thread is in has called another one."""
    return getattr(_thread, "has_inner_fit", False)


def _wrap_fit() -> None:
    model: Any = sys.modules[_MODELS].Model
    trainer = next(base for base in model.__mro__ if "fit" in vars(base))
    original = trainer.fit
    if getattr(original, "looks_for_a_run", False):
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def fit(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if _load is None or getattr(_thread, "is_fitting", False):
            # A callback or a step may fit another model.
            _thread.has_inner_fit = True
            return original(self, *arguments, **keywords)
        given = signature.bind(self, *arguments, **keywords)
        given.apply_defaults()
        _thread.is_fitting, _thread.has_inner_fit = True, False
        try:
            result = _load()(original, self, {name: value for name, value in given.arguments.items() if name != "self"})
        finally:
            _thread.is_fitting = False
        return original(self, *arguments, **keywords) if result is NOT_OF_A_RUN else result

    fit.looks_for_a_run = True  # type: ignore[attr-defined]
    trainer.fit = fit
