"""The part of `lowtide train` that runs inside the script's process, after the script has imported TensorFlow."""

from __future__ import annotations

import os
import sys

import tensorflow as tf

from lowtide.run.train.fit_hook import Run, let_fits_belong
from lowtide.run.train.settings import VARIABLE, read_settings
from lowtide.tf.record.script import limit_gpus as limit_gpus
from lowtide.tf.train.session import add_failure, begin_supervised


def begin(folder: str, steps: int) -> bool:
    """Seed what the script does not seed itself, and let every `fit` belong to the run."""
    settings = read_settings()
    assert settings is not None
    # Processes that the script starts do not belong to the run.
    del os.environ[VARIABLE]
    begin_supervised(settings)
    # Python's and NumPy's generators were seeded when they were imported.
    tf.random.set_seed(settings.seed)
    let_fits_belong(_load)
    return True


def end(process: int) -> None:
    """Say how the script ended, if by an exception."""
    error = getattr(sys, "last_value", None)
    if error is not None and os.getpid() == process:
        add_failure(error, is_memory=_is_memory(error))


def _load() -> Run:
    # It needs Keras, which may be partly imported when this module is.
    from lowtide.tf.train.keep_going import run_fit

    return run_fit


def _is_memory(error: BaseException) -> bool:
    # Nothing is imported in a process that ends. Without its module there is no such error.
    no_plan = getattr(sys.modules.get("lowtide.planning.plan"), "NoPlanError", MemoryError)
    return isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError, no_plan))
