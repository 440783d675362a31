"""Optimizers by name, and the compilation of a model for a configuration."""

from __future__ import annotations

from typing import Any

import keras

from benchmarks.accuracy.zoo import Configuration

_OPTIMIZERS = {
    "sgd": lambda **rest: keras.optimizers.SGD(1e-4, **rest),
    "momentum": lambda **rest: keras.optimizers.SGD(1e-4, momentum=0.9, nesterov=True, **rest),
    "adam": lambda **rest: keras.optimizers.Adam(1e-5, **rest),
    "adamw": lambda **rest: keras.optimizers.AdamW(1e-5, weight_decay=0.01, clipnorm=1.0, **rest),
    "rmsprop": lambda **rest: keras.optimizers.RMSprop(1e-5, **rest),
    "adafactor": lambda **rest: keras.optimizers.Adafactor(1e-5, **rest),
    "lion": lambda **rest: keras.optimizers.Lion(1e-6, **rest),
}


def make_optimizer(configuration: Configuration) -> Any:
    """Return a new optimizer; learning rates are small so that random labels never lead to NaN."""
    steps = configuration.gradient_accumulation_steps
    rest = {} if steps is None else {"gradient_accumulation_steps": steps}
    return _OPTIMIZERS[configuration.optimizer](**rest)


def compile_model(model: Any, configuration: Configuration, loss: Any, **rest: Any) -> Any:
    """Compile the model and create the optimizer's slots, as the first step would."""
    model.compile(
        optimizer=make_optimizer(configuration),
        loss=loss,
        jit_compile=configuration.xla,
        steps_per_execution=configuration.steps_per_execution,
        **rest,
    )
    model.optimizer.build(model.trainable_variables)
    return model


CLASSES = 10
SPARSE = "sparse_categorical_crossentropy"
ACCURACY = {"metrics": ["accuracy"]}
