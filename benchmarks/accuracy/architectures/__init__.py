"""The programs of the benchmark: each builder returns a compiled Keras model, or a step and its specs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from benchmarks.accuracy.architectures import applications, attention, custom, held_out, plain, sequences, sparse
from benchmarks.accuracy.zoo import Configuration

BUILDERS: dict[str, Callable[..., Any]] = {
    **applications.BUILDERS,
    **plain.BUILDERS,
    **attention.BUILDERS,
    **sequences.BUILDERS,
    **sparse.BUILDERS,
    **custom.BUILDERS,
    **held_out.BUILDERS,
}


def build(configuration: Configuration) -> Any:
    """Return a compiled Keras model, or `(step, *specs)`, with all variables created."""
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(configuration.precision)
    return BUILDERS[configuration.architecture](configuration, **configuration.options)
